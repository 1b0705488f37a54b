package reserve

import (
	"context"
	"time"
)

// Turns is a [Limiter] or a [Joint], for code that works with either. Convert it with
// All(t.Limits()...). Other packages do that, so they call no methods of your own type.
type Turns interface {
	Limits() []*Limiter
	String() string

	Pause(ctx context.Context, d time.Duration, reason string) error
	PauseUntil(ctx context.Context, until time.Time, reason string) error
	Resume(ctx context.Context) error
}

var (
	_ Turns = (*Limiter)(nil)
	_ Turns = (*Joint)(nil)
)

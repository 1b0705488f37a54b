package reserve

import (
	"context"
	"time"
)

// Turns is what gives turns: a [Limiter] or a [Joint]. All(t.Limits()...) is the Joint of
// either. Other packages use that Joint, so methods of a type of your own would not be called.
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

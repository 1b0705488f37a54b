package reserve

import (
	"context"
	"time"
)

// Turns is a [Limiter] or a [Joint], for code that works with either. All(t.Limits()...) makes a
// Joint of it. Other packages use that one, and call no methods of a type of your own.
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

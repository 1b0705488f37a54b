package riverpace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/riverqueue/river/rivertype"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config says what jobs need. The zero value is good for most.
type Config struct {
	// Turn says what a job needs. It is called each time a job comes into a worker, by many
	// goroutines at a time, with the job's context. An error fails the job's attempt, and so
	// does a Turn that is wrong. Default: the zero [Turn].
	Turn func(context.Context, *rivertype.JobRow) (Turn, error)

	// Logger hears, at most every 10 s, of jobs whose limits do not answer. Default
	// slog.Default().
	Logger *slog.Logger
}

// Turn is what a job needs before it is worked. The zero Turn is one permit of each of the
// usual limits.
type Turn struct {
	// Limits is a Limiter or a Joint to wait for. It may be that of a tenant
	// ([reserve.Limiter.For]), of a flow ([reserve.Limiter.Flow]), or of calls that go first
	// ([reserve.Limiter.Urgent]). Nil: the limits that the Pacer was made with.
	Limits reserve.Turns

	// Costs are the permits of each of the limits, in their order. None: one permit of each.
	Costs []int

	// Skip is for a job that calls nothing: it is worked without a turn.
	Skip bool
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("riverpace: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

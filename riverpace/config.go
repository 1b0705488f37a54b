package riverpace

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/riverqueue/river/rivertype"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config configures a Pacer. The zero value suits most fleets.
type Config struct {
	// Need says what a job needs. It is called each time a job enters a worker, by many goroutines at a
	// time, with the job's context. An error, or a Need that is not valid, fails the job's attempt.
	// Default: the zero [Need].
	Need func(context.Context, *rivertype.JobRow) (Need, error)

	// Turn is the earlier name of Need, and counts if Need is nil.
	//
	// Deprecated: use Need.
	Turn func(context.Context, *rivertype.JobRow) (Need, error)

	// Logger gets a warning, at most every 10 s, about jobs whose limits do not answer. Default:
	// slog.Default().
	Logger *slog.Logger
}

// Need is what a job needs before it is worked. The zero Need is one permit of each of the
// usual limits.
type Need struct {
	// Limits is a Limiter or a Joint to wait for. It may be the limiter of a tenant
	// ([reserve.Limiter.For]), of a flow ([reserve.Limiter.Flow]), or of calls that go first
	// ([reserve.Limiter.Urgent]). Nil: the limits that were passed to [New].
	Limits reserve.Turns

	// Costs are the permits of each of the limits, in their order. Nil: one permit of each.
	Costs []int

	// Skip is for a job that calls nothing: it is worked without a turn.
	Skip bool
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("riverpace: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

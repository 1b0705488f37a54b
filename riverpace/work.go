package riverpace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/fleetpace/fleetpace/reserve"
)

// askAgain is the mean snooze of a job whose limits do not answer.
const askAgain = 2 * time.Second

// middleware has the methods that River calls, so that they are not methods of Pacer.
type middleware struct {
	river.MiddlewareDefaults
	*Pacer
}

// Work gives a job its turn and works it. It releases the job's slots even after a panic.
func (m *middleware) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	need, err := m.config.Need(ctx, job)
	if err == nil && need.Skip {
		return work(ctx)
	}
	var r *reserve.Reservation
	if err == nil {
		r, err = m.wait(ctx, job, need)
	}
	if err != nil { // River finds the snooze in it
		return fmt.Errorf("riverpace: the turn of a job of kind %q: %w", job.Kind, err)
	}
	defer r.Release()
	return work(context.WithValue(ctx, reservationKey{}, r))
}

// wait returns when the job has its turn. If the turn is far away, or moves away, the error is a snooze.
func (m *middleware) wait(ctx context.Context, job *rivertype.JobRow, need Need) (*reserve.Reservation, error) {
	limits := need.Limits
	if limits == nil {
		limits = m.limits
	}
	joint, err := reserve.All(limits.Limits()...)
	if err != nil {
		return nil, err
	}
	stay, cancel := context.WithTimeout(ctx, stays*m.patience)
	defer cancel()
	r, err := joint.Ask(stay, id(job), m.patience, need.Costs...)
	for err == nil && stay.Err() == nil && !r.Booked() && r.Delay() <= m.patience {
		near, cancel := context.WithTimeout(stay, r.Delay()+m.patience)
		if err = r.Wait(near); err == nil {
			cancel()
			return r, nil
		}
		if near.Err() != nil && ctx.Err() == nil {
			err = nil // the turn has moved away
		}
		cancel()
	}
	return nil, m.putBack(ctx, r, err)
}

// putBack returns a snooze that ends shortly before the turn, and keeps the job's place. err is why the job
// has no turn yet. If err is about the Need itself, it fails the attempt.
func (m *middleware) putBack(ctx context.Context, r *reserve.Reservation, err error) error {
	if errors.Is(err, reserve.ErrInvalid) {
		return err
	}
	if r != nil {
		_ = r.Book(context.WithoutCancel(ctx)) // if it fails, the job loses its place and nothing else
	}
	switch {
	case ctx.Err() != nil:
		return river.JobSnooze(0) // River ignores the snooze of a job that was cancelled for good
	case err != nil:
		m.hint.Do(func() {
			m.config.Logger.Warn("fleetpace: cannot get turns; jobs are snoozed until this is fixed", "error", err)
		})
		return river.JobSnooze(askAgain/2 + rand.N(askAgain))
	}
	return river.JobSnooze(max(0, r.Delay()-m.lead))
}

// id names the wait of a job for one turn. It is the same after a snooze, and another one for a retry: a
// call that was made and failed needs a new turn. Each database counts its jobs from 1, so the moment of
// insertion distinguishes jobs of several databases.
func id(job *rivertype.JobRow) string {
	return fmt.Sprintf("river/%d/%d/%d", job.ID, job.Attempt, job.CreatedAt.UnixMicro())
}

type reservationKey struct{}

// Reservation is the turn of the job that has this context, for [reserve.Reservation.Settle]
// or [reserve.Reservation.Lost]. It is nil for a job that needed none. Slots are released when
// the job's work ends.
func Reservation(ctx context.Context) *reserve.Reservation {
	r, _ := ctx.Value(reservationKey{}).(*reserve.Reservation)
	return r
}

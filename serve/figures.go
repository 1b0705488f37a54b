package serve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// figures asks for the state of limits, for requests that pass.
//
// The limiter's circuit breaker is not for State, and figures are not worth waiting
// for: when a call has failed, one request a second tries again, and the others have
// no figures.
type figures struct {
	pause atomic.Int64 // until this moment, in Unix nanoseconds; 0: Redis answers
}

const figuresPause = time.Second

// ask reports false where there are none.
func (f *figures) ask(ctx context.Context, limiter *reserve.Limiter) (reserve.State, bool) {
	now := time.Now()
	if until := f.pause.Load(); until != 0 {
		if now.UnixNano() < until || !f.pause.CompareAndSwap(until, now.Add(figuresPause).UnixNano()) {
			return reserve.State{}, false
		}
	}
	state, err := limiter.State(ctx)
	switch {
	case err == nil:
		f.pause.Store(0)
	case ctx.Err() == nil:
		f.pause.Store(time.Now().Add(figuresPause).UnixNano())
	}
	return state, err == nil
}

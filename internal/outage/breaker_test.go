package outage

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// TestBreaker plays outcomes of attempts at moments of simulated time.
func TestBreaker(t *testing.T) {
	away := fault.ErrUnavailable
	left, leave := context.WithCancel(t.Context())
	leave()
	type step struct {
		after time.Duration
		pass  bool            // an attempt may be made …
		err   error           // … and ends so
		ctx   context.Context // of the caller; nil: it is still there
		open  bool            // afterwards
	}
	for name, steps := range map[string][]step{
		"enough failures in a row open it":  {{0, true, away, nil, false}, {oneEvent, true, away, nil, false}, {oneEvent, true, away, nil, true}},
		"failures of one moment count once": {{0, true, away, nil, false}, {0, true, away, nil, false}, {0, true, away, nil, false}, {0, true, away, nil, false}},
		"an answer begins the count anew": {{0, true, away, nil, false}, {oneEvent, true, away, nil, false}, {oneEvent, true, nil, nil, false},
			{oneEvent, true, away, nil, false}, {oneEvent, true, away, nil, false}},
		"an attempt from time to time closes it": {{0, true, away, nil, false}, {oneEvent, true, away, nil, false}, {oneEvent, true, away, nil, true},
			{time.Second / 2, false, nil, nil, true}, {time.Second, true, away, nil, true}, {time.Second / 2, false, nil, nil, true}, {time.Second, true, nil, nil, false}},
		"a caller that leaves says nothing": {{0, true, away, nil, false}, {oneEvent, true, away, nil, false}, {oneEvent, true, away, nil, true},
			{time.Second, true, context.Canceled, left, true}, {time.Second, true, nil, nil, false}},
		"a closed client is no outage": {{0, true, redis.ErrClosed, nil, false}, {oneEvent, true, redis.ErrClosed, nil, false}, {oneEvent, true, redis.ErrClosed, nil, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBreaker(Config{Failures: 3, Probe: time.Second, Logger: slog.New(slog.DiscardHandler)}, func() float64 { return 0.5 })
				for i, s := range steps {
					time.Sleep(s.after)
					require.Equal(t, s.pass, b.Pass(), "step %d", i)
					if s.pass {
						ctx := s.ctx
						if ctx == nil {
							ctx = t.Context()
						}
						b.Record(ctx, s.err)
					}
					require.Equal(t, s.open, b.Open(), "step %d", i)
				}
			})
		})
	}
}

// One attempt at a time is let through, and an answer to a call from before it opened closes nothing.
func TestBreakerLetsOneAttemptThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBreaker(Config{Failures: 1, Probe: time.Second, Logger: slog.New(slog.DiscardHandler)}, func() float64 { return 0.5 })
		b.Record(t.Context(), fault.ErrUnavailable)
		require.True(t, b.Open())
		b.Record(t.Context(), nil) // sent while it was closed
		require.True(t, b.Open())
		time.Sleep(time.Second)
		require.True(t, b.Pass())
		require.False(t, b.Pass())
		time.Sleep(time.Minute)
		require.False(t, b.Pass())
		b.Record(t.Context(), errors.New("an answer that is an error"))
		require.False(t, b.Open())
		require.True(t, b.Pass())
	})
}

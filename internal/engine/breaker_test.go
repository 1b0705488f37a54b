package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
)

func newBreaker(failures int) *breaker {
	return &breaker{failures: failures, probe: time.Second, interval: time.Second, tell: func(Event) {}}
}

// TestBreaker plays outcomes of attempts.
func TestBreaker(t *testing.T) {
	away := fault.ErrUnavailable
	left := errors.New("the caller has left")
	type step struct {
		after time.Duration
		pass  bool  // an attempt may be made …
		err   error // … and ends so
		open  bool  // afterwards
	}
	for name, steps := range map[string][]step{
		"enough failures in a row open it":  {{0, true, away, false}, {oneEvent, true, away, false}, {oneEvent, true, away, true}},
		"failures of one moment count once": {{0, true, away, false}, {0, true, away, false}, {0, true, away, false}, {0, true, away, false}},
		"an answer begins the count anew": {{0, true, away, false}, {oneEvent, true, away, false}, {oneEvent, true, nil, false},
			{oneEvent, true, away, false}, {oneEvent, true, away, false}},
		"an attempt from time to time closes it": {{0, true, away, false}, {oneEvent, true, away, false}, {oneEvent, true, away, true},
			{time.Second / 2, false, nil, true}, {time.Second, true, away, true}, {time.Second / 2, false, nil, true}, {time.Second, true, nil, false}},
		"a caller that leaves says nothing": {{0, true, away, false}, {oneEvent, true, away, false}, {oneEvent, true, away, true},
			{time.Second, true, left, true}, {time.Second, true, nil, false}},
		"a closed client is no outage": {{0, true, redis.ErrClosed, false}, {oneEvent, true, redis.ErrClosed, false}, {oneEvent, true, redis.ErrClosed, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := newBreaker(3), time.Unix(1_000_000, 0)
			for i, s := range steps {
				now = now.Add(s.after)
				require.Equal(t, s.pass, b.pass(now), "step %d", i)
				switch {
				case !s.pass:
				case errors.Is(s.err, left):
					b.abandon()
				default:
					b.record(now, s.err)
				}
				require.Equal(t, s.open, b.isOpen(), "step %d", i)
			}
		})
	}
}

// One attempt at a time is let through, and an answer to a call from before it opened closes nothing.
func TestBreakerLetsOneAttemptThrough(t *testing.T) {
	b, now := newBreaker(1), time.Unix(1_000_000, 0)
	b.record(now, fault.ErrUnavailable)
	require.True(t, b.isOpen())
	b.record(now, nil) // sent while it was closed
	require.True(t, b.isOpen())
	now = now.Add(time.Second)
	require.True(t, b.pass(now))
	require.False(t, b.pass(now))
	now = now.Add(time.Minute)
	require.False(t, b.pass(now))
	b.record(now, errors.New("an answer that is an error"))
	require.False(t, b.isOpen())
	require.True(t, b.pass(now))
}

package reserve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// closed asserts that nothing works any more.
func closed(t *testing.T, l *reserve.Limiter) {
	t.Helper()
	ctx := t.Context()
	_, allow := l.Allow(ctx)
	_, reserved := l.Reserve(ctx)
	_, looked := l.State(ctx)
	for op, err := range map[string]error{
		"wait": l.Wait(ctx), "allow": allow, "reserve": reserved, "state": looked, "pause": l.Pause(ctx, 1, ""), "resume": l.Resume(ctx),
		"set limit": l.SetLimit(ctx, l.Limit(), 0), "reset limit": l.ResetLimit(ctx),
	} {
		assert.ErrorIs(t, err, reserve.ErrClosed, op)
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, op, e.Op)
	}
	require.NoError(t, l.Close(), "once more")
}

// Close ends waits, of all keys, and gives their places back.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(time.Minute)), b.limiter(reserve.Every(time.Minute))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.For("a").Wait(t.Context()))
		ended := make(chan error)
		for _, l := range []*reserve.Limiter{l, l, l.For("a")} {
			go func() { ended <- l.Wait(context.Background()) }()
		}
		time.Sleep(time.Second)
		assert.EqualValues(t, 2, state(t, other).Waiting)
		start := time.Now()
		go func() { _ = l.Close() }()
		for range 3 {
			require.ErrorIs(t, <-ended, reserve.ErrClosed)
		}
		assert.Zero(t, time.Since(start), "the waits end at once")
		require.NoError(t, l.Close())
		assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
		assert.Zero(t, state(t, other).Waiting)
		assert.Zero(t, state(t, other.For("a")).Waiting)
		closed(t, l)
		closed(t, l.For("a"))
		closed(t, l.For("b"))
		require.NoError(t, other.Wait(t.Context()))
	})
}

// Of a group, the calls of the Limiter that is closed end, and those of a Joint that need it;
// others go on.
func TestCloseOneOfAGroup(t *testing.T) {
	for last := range 2 {
		synctest.Test(t, func(t *testing.T) {
			limits := newBubble(t).group(reserve.Every(time.Minute), reserve.Every(time.Minute))
			gone, stays := limits[last], limits[1-last]
			both := joint(t, limits...)
			require.NoError(t, both.Wait(t.Context()))
			start := time.Now()
			ended, served := make(chan error), make(chan error)
			go func() { ended <- gone.Wait(context.Background()) }()
			go func() { ended <- gone.For("a").Wait(context.Background()) }()
			go func() { ended <- both.Wait(context.Background()) }()
			require.NoError(t, <-ended, "the key has a queue of its own")
			go func() { served <- stays.Wait(context.Background()) }()
			time.Sleep(time.Second)
			closing := time.Now()
			require.NoError(t, gone.Close())
			require.ErrorIs(t, <-ended, reserve.ErrClosed)
			require.ErrorIs(t, <-ended, reserve.ErrClosed)
			assert.LessOrEqual(t, time.Since(closing), 50*time.Millisecond)
			closed(t, gone)
			require.ErrorIs(t, both.Wait(t.Context()), reserve.ErrClosed)
			_, err := both.Allow(t.Context())
			require.ErrorIs(t, err, reserve.ErrClosed)
			_, err = both.States(t.Context())
			require.ErrorIs(t, err, reserve.ErrClosed)
			require.NoError(t, <-served)
			assert.InDelta(t, time.Minute, time.Since(start), float64(100*time.Millisecond))
			require.NoError(t, stays.Close())
			closed(t, stays)
		})
	}
}

// A group begins anew when all of it was closed.
func TestAGroupBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		config := reserve.Config{Name: "a", Group: "g", Limit: reserve.PerSecond(1)}
		for range 3 {
			old := b.on(client, config)
			require.NoError(t, old.Wait(t.Context()))
			require.NoError(t, old.Close())
			l := b.on(client, config)
			require.NoError(t, l.Wait(t.Context()))
			config.Name += "a"
			_, err := reserve.All(l, old.For("other"))
			require.ErrorIs(t, err, reserve.ErrClosed)
			require.NoError(t, l.Close())
		}
	})
}

// While Redis is away Close ends the waits, too, and does not last.
func TestCloseWithoutRedis(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyWait, reserve.PolicyLocal} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				outage := reserve.Outage{Policy: policy, Probe: time.Minute}
				client := b.client()
				one := b.on(client, reserve.Config{Name: "one", Group: "g", Limit: reserve.PerHour(1), Outage: outage})
				two := b.on(client, reserve.Config{Name: "two", Group: "g", Limit: reserve.PerHour(1), Outage: outage})
				j := joint(t, one, two)
				require.NoError(t, j.Wait(t.Context()))
				b.mini.SetError(loading)
				ended := make(chan error)
				go func() { ended <- j.Wait(context.Background()) }()
				go func() { ended <- one.Wait(context.Background()) }()
				time.Sleep(10 * time.Second)
				start := time.Now()
				go func() { _ = one.Close() }()
				require.ErrorIs(t, <-ended, reserve.ErrClosed)
				require.ErrorIs(t, <-ended, reserve.ErrClosed)
				require.NoError(t, one.Close())
				require.NoError(t, two.Close())
				require.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
			})
		})
	}
}

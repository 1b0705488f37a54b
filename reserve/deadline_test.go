package reserve_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A turn that would come too late is not taken, and the error says how much time is needed.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.Every(10 * time.Second))
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		err := l.Wait(ctx)
		assert.LessOrEqual(t, time.Since(start), 50*time.Millisecond, "at once")
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "wait", e.Op)
		assert.Equal(t, "api", e.Key)
		assert.InDelta(t, 10*time.Second, e.Wait, float64(20*time.Millisecond))
		assert.InDelta(t, 4*time.Second, e.Left, float64(20*time.Millisecond))
		assert.ErrorContains(t, err, `reserve: wait "api": would miss the deadline: the turn is in 9.9`)

		enough, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		require.NoError(t, l.Wait(enough), "nothing was consumed")
		assert.InDelta(t, 10*time.Second, time.Since(start), float64(20*time.Millisecond))
	})
}

// Where the context ends during the wait, the place is for the next one.
func TestContextEndsDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(10*time.Second)), b.limiter(reserve.Every(10*time.Second))
		require.NoError(t, l.Wait(t.Context()))
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		f := newLog()
		gone := make(chan error)
		go func() { gone <- l.Wait(ctx) }()
		time.Sleep(time.Second)
		f.wait(t, 1, 1, other.Wait)
		f.wait(t, 1, 0, l.Wait)
		time.Sleep(time.Second)
		cancel(cause)
		err := <-gone
		require.ErrorIs(t, err, context.Canceled)
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		f.all()
		assert.Equal(t, 0, f.calls[0].who, "who waits in the same process is next")
		assert.InDelta(t, 10*time.Second, f.calls[0].after, float64(50*time.Millisecond))
		assert.InDelta(t, 20*time.Second, f.calls[1].after, float64(100*time.Millisecond))

		require.ErrorIs(t, l.Wait(ctx), context.Canceled)
		_, err = l.Allow(ctx)
		require.ErrorIs(t, err, context.Canceled)
		over, cancelOver := context.WithTimeout(t.Context(), -1)
		defer cancelOver()
		require.ErrorIs(t, l.Wait(over), context.DeadlineExceeded)
	})
}

// Allow with a deadline is no error either.
func TestAllowBeforeADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.Every(10 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, want := range []bool{true, false} {
			ok, err := l.Allow(ctx)
			require.NoError(t, err)
			assert.Equal(t, want, ok)
		}
	})
}

// In one process calls come in the order in which they joined, of each key by itself.
func TestOrderAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(2))
		f := newLog()
		for i := range 6 {
			f.wait(t, 1, i, l.For("a").Wait)
			f.wait(t, 1, 100+i, l.For("b").Wait)
		}
		calls := f.all()
		for _, key := range []int{0, 100} {
			i := 0
			for _, c := range calls {
				if c.who/100*100 == key {
					assert.Equal(t, key+i, c.who)
					assert.InDelta(t, time.Duration(i)*500*time.Millisecond, c.after, float64(30*time.Millisecond))
					i++
				}
			}
			assert.Equal(t, 6, i)
		}
		assert.Equal(t, "api/a", l.For("b").For("a").String(), "another key")
		assert.Equal(t, "api", l.String())
	})
}

// at is a context whose deadline has come, and that has not ended.
type at struct {
	context.Context
	moment time.Time
}

func (a at) Deadline() (time.Time, bool) { return a.moment, true }

// A call that has no time has its turn if that is now; else it hears how far away it is, as if
// nobody had come at the same time, and is in nobody's way.
func TestNoTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(10 * time.Second).Burst(3))
		require.NoError(t, l.WaitN(at{t.Context(), time.Now()}, 2))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				err := l.WaitN(at{t.Context(), time.Now()}, 3)
				assert.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
				var e *reserve.Error
				assert.ErrorAs(t, err, &e)
				assert.InDelta(t, 20*time.Second, e.Wait, float64(20*time.Millisecond))
				err = joint(t, l).Wait(at{t.Context(), time.Now()}, 2)
				assert.ErrorAs(t, err, &e)
				assert.InDelta(t, 10*time.Second, e.Wait, float64(30*time.Millisecond))
			})
		}
		all.Wait()
		require.NoError(t, b.limiter(reserve.Every(10*time.Second).Burst(3)).Wait(t.Context()))
		s, err := l.State(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Waiting)
	})
}

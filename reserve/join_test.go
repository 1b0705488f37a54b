package reserve_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

// Calls that are booked keep their order, tell when to come, and count before others when they
// come.
func TestJoinOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		l := b.limiter(k.limit)
		j := joint(t, l)
		var calls []reserve.Call
		for i := range k.burst + 30 {
			calls = append(calls, reserve.Call{ID: fmt.Sprint(i)})
		}
		joined := j.Book(t.Context(), calls)
		require.Len(t, joined, len(calls))
		for i := range joined {
			require.NoError(t, joined[i].Err)
			if i > 0 {
				assert.GreaterOrEqual(t, joined[i].Due.Sub(joined[i-1].Due), -5*time.Millisecond, "call %d", i) // of another round trip
			}
		}
		assert.EqualValues(t, len(calls), state(t, l).Booked)
		assert.GreaterOrEqual(t, time.Until(joined[len(joined)-1].Due), k.most/4)
		f := newLog()
		for i := range calls {
			f.busy.Go(func() { // a process that comes when it was told
				due := joined[i].Due
				for {
					time.Sleep(time.Until(due) - reserve.Lead)
					r, err := joint(t, b.limiter(k.limit)).Ask(context.Background(), calls[i].ID, 2*time.Second)
					if !assert.NoError(t, err) {
						return
					}
					if due = r.Due(); r.Booked() {
						assert.Greater(t, r.Delay(), 1900*time.Millisecond)
						continue
					}
					assert.NoError(t, r.Wait(context.Background()))
					f.mu.Lock()
					f.calls = append(f.calls, call{f.now(), 1, i})
					f.mu.Unlock()
					return
				}
			})
		}
		moved := 0
		for i, c := range f.all() {
			moved = max(moved, i-c.who, c.who-i)
		}
		assert.Len(t, f.calls, len(calls))
		assert.LessOrEqual(t, f.calls[len(calls)-1].after, k.most+10*time.Second)
		t.Logf("at most %d places out of order, the last one after %v", moved, f.calls[len(calls)-1].after)
		assert.Zero(t, state(t, l).Booked)
	})
}

// A booking holds nobody up, and its ID keeps its place.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(10*time.Second)), b.limiter(reserve.Every(10*time.Second))
		j := joint(t, l)
		require.NoError(t, l.Wait(t.Context()))
		r, err := j.Ask(t.Context(), "task", time.Second)
		require.NoError(t, err)
		assert.True(t, r.Booked())
		assert.Equal(t, "task", r.ID())
		assert.InDelta(t, 10*time.Second, r.Delay(), float64(50*time.Millisecond))
		err = r.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, `"task" is booked`)
		require.NoError(t, r.PutBack(t.Context()), "it is")

		f := newLog()
		f.wait(t, 1, 1, other.Wait)
		time.Sleep(9500 * time.Millisecond)
		r, err = joint(t, b.limiter(reserve.Every(10*time.Second))).Ask(t.Context(), "task", time.Second)
		require.NoError(t, err)
		require.False(t, r.Booked())
		f.wait(t, 1, 0, r.Wait)
		f.all()
		assert.Equal(t, 0, f.calls[0].who, "it came first")
		assert.InDelta(t, 10*time.Second, f.calls[0].after, float64(100*time.Millisecond))
		assert.InDelta(t, 20*time.Second, f.calls[1].after, float64(500*time.Millisecond))
	})
}

// Book puts a call back: another process may go on with it.
func TestBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limit := reserve.Every(10 * time.Second)
		one, two := b.limiter(limit), b.limiter(limit)
		require.NoError(t, one.Wait(t.Context()))
		r, err := joint(t, one).Ask(t.Context(), "task", time.Minute)
		require.NoError(t, err)
		require.False(t, r.Booked())
		f := newLog()
		f.wait(t, 1, 1, two.Wait)
		time.Sleep(time.Second)
		require.NoError(t, r.PutBack(t.Context()))
		require.NoError(t, r.PutBack(t.Context()), "once more")
		assert.True(t, r.Booked())
		require.ErrorIs(t, r.Wait(t.Context()), reserve.ErrInvalid)
		require.NoError(t, r.Cancel(t.Context()), "it is somebody else's")
		require.NoError(t, one.Close())
		s := state(t, two)
		assert.EqualValues(t, 1, s.Waiting)
		assert.EqualValues(t, 1, s.Booked)
		again, err := joint(t, two).Ask(t.Context(), "task", time.Minute)
		require.NoError(t, err)
		f.wait(t, 1, 0, again.Wait)
		f.all()
		assert.Equal(t, 0, f.calls[0].who, "it keeps its place in the order")

		held, err := two.Reserve(t.Context())
		require.NoError(t, err)
		err = held.PutBack(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, "has no ID")
	})
}

// Leave ends a booking, also after Close; so does Cancel.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(10*time.Second)), b.limiter(reserve.Every(10*time.Second))
		j := joint(t, l)
		require.NoError(t, l.Wait(t.Context()))
		joined := j.Book(t.Context(), []reserve.Call{{ID: "a"}, {ID: "b"}, {ID: "c"}})
		assert.InDelta(t, 30*time.Second, time.Until(joined[2].Due), float64(100*time.Millisecond))
		require.NoError(t, j.CancelBooking(t.Context(), "a"))
		require.NoError(t, j.CancelBooking(t.Context(), "a"), "once more")
		require.NoError(t, j.CancelBooking(t.Context(), "nobody"))
		r, err := j.Ask(t.Context(), "b", time.Second)
		require.NoError(t, err)
		assert.InDelta(t, 10*time.Second, r.Delay(), float64(100*time.Millisecond), "it came forward")
		require.NoError(t, r.Cancel(t.Context()))
		assert.EqualValues(t, 1, state(t, other).Booked)
		require.NoError(t, l.Close())
		require.NoError(t, j.CancelBooking(t.Context(), "c"))
		assert.Zero(t, state(t, other).Booked)
		_, err = j.Ask(t.Context(), "d", time.Second)
		require.ErrorIs(t, err, reserve.ErrClosed)
		require.ErrorIs(t, j.Book(t.Context(), []reserve.Call{{ID: "d"}})[0].Err, reserve.ErrClosed)
	})
}

// Each call has its own answer, and a deadline of its own.
func TestJoinAnswersEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(10 * time.Second))
		require.NoError(t, l.Wait(t.Context()))
		j := joint(t, l)
		joined := j.Book(t.Context(), []reserve.Call{
			{ID: "a", Deadline: time.Now().Add(11 * time.Second)}, {ID: ""}, {ID: "b", Costs: []int{2}},
			{ID: "c", Deadline: time.Now().Add(11 * time.Second)}, {ID: "d"}, {ID: "e", Deadline: time.Now().Add(-time.Second)},
		})
		for i, want := range []error{nil, reserve.ErrInvalid, reserve.ErrExceedsBurst, reserve.ErrWouldMissDeadline, nil, reserve.ErrWouldMissDeadline} {
			require.ErrorIs(t, joined[i].Err, want, "call %d", i)
			assert.Equal(t, want != nil, joined[i].Due.IsZero(), "call %d", i)
		}
		assert.InDelta(t, 20*time.Second, time.Until(joined[4].Due), float64(100*time.Millisecond), "the others are not booked")
		var e *reserve.Error
		require.ErrorAs(t, joined[3].Err, &e)
		assert.Equal(t, "book", e.Op)
		assert.InDelta(t, 20*time.Second, e.Wait, float64(100*time.Millisecond))
		assert.InDelta(t, 11*time.Second, e.Left, float64(100*time.Millisecond))
		assert.Empty(t, j.Book(t.Context(), nil))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, j.Book(ctx, []reserve.Call{{ID: "x"}})[0].Err, context.Canceled)
		b.mini.SetError(loading)
		joined = j.Book(t.Context(), []reserve.Call{{ID: "x"}, {ID: "y"}})
		require.ErrorIs(t, joined[0].Err, reserve.ErrUnavailable)
		require.ErrorIs(t, joined[1].Err, reserve.ErrUnavailable)
	})
}

// A call of several limits may be booked, too.
func TestJoinOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(1), reserve.PerMinute(6).Burst(2))
		j := joint(t, limits...)
		require.NoError(t, j.Wait(t.Context(), 1, 2))
		joined := j.Book(t.Context(), []reserve.Call{{ID: "a"}, {ID: "b", Costs: []int{1, 2}}})
		require.NoError(t, joined[0].Err)
		require.NoError(t, joined[1].Err)
		assert.InDelta(t, 10*time.Second, time.Until(joined[0].Due), float64(500*time.Millisecond))
		assert.InDelta(t, 30*time.Second, time.Until(joined[1].Due), float64(500*time.Millisecond))
		r, err := j.Ask(t.Context(), "a", time.Minute)
		require.NoError(t, err)
		assert.Same(t, limits[1], r.HeldBy())
		require.NoError(t, r.Wait(t.Context()))
		require.NoError(t, j.CancelBooking(t.Context(), "b", 1, 2))
		states, err := j.States(t.Context())
		require.NoError(t, err)
		for _, s := range states {
			assert.Zero(t, s.Booked)
		}
	})
}

// A call whose context ends while it asks keeps its place.
func TestAskIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		config := reserve.Config{Name: "api", Limit: reserve.PerHour(1)}
		l := server.Limiter(config)
		require.NoError(t, l.Wait(t.Context()))
		joint(t, l).Book(t.Context(), []reserve.Call{{ID: "first"}, {ID: "second"}})
		server.Delay(100 * time.Millisecond)
		other := joint(t, server.Limiter(config))
		_, err := other.Allow(t.Context())
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r, err := other.Ask(ctx, "first", 10*time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, r.Wait(ctx), context.DeadlineExceeded)
		require.NoError(t, r.PutBack(t.Context()))
		r, err = other.Ask(t.Context(), "first", 10*time.Hour)
		require.NoError(t, err)
		require.Less(t, r.Delay(), 61*time.Minute, "it is before the second")

		server.Outage(time.Hour)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err = joint(t, server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerHour(1), Outage: reserve.Outage{Policy: reserve.PolicyWait}})).Ask(ctx, "third", 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), time.Minute+time.Second)
	})
}

package reserve_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// edge is a number at a bound, just inside it, just beyond it, or further away.
func edge(r *rand.Rand, bound float64) float64 {
	return bound * []float64{0.5, 1 - 1e-3, 1 - 1e-6, 1, 1, 1 + 1e-6, 1 + 1e-3, 1.3, 3}[r.IntN(9)]
}

// span is a time at a bound.
func span(r *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(min(edge(r, float64(bound)), math.MaxInt64-1024)).Truncate(time.Microsecond)
}

// atTheEdge draws a limit whose figures are at the bounds of what is allowed, on either side.
func atTheEdge(r *rand.Rand) reserve.Limit {
	one := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	const longest = lua.Longest * time.Microsecond
	paced := func() reserve.Limit {
		burst := int(one(1, 1, 2, 7, 1000, edge(r, 1e9)))
		switch r.IntN(4) {
		case 0:
			return reserve.PerSecond(edge(r, 1e6)).Burst(burst)
		case 1:
			return reserve.PerDay(86400e6 / edge(r, lua.Longest/float64(burst))).Burst(burst)
		case 2:
			return reserve.Every(time.Microsecond * time.Duration(1+r.IntN(2))).Burst(burst)
		default:
			return reserve.Every(span(r, longest/time.Duration(burst))).Burst(burst)
		}
	}
	switch r.IntN(6) {
	case 0:
		return reserve.Quota(int(one(1, edge(r, 1e9))), reserve.Calendar(r.IntN(5))).Margin(time.Duration(one(0, edge(r, float64(15*time.Second)))).Truncate(time.Microsecond))
	case 1:
		window := span(r, time.Duration(one(float64(longest), float64(longest/5*4), 1e6, 1e12)))
		return reserve.Rolling(int(one(1, 2, edge(r, 100_000))), window).Margin(time.Duration(one(0, 0.25*float64(window))).Truncate(time.Microsecond))
	case 2:
		return reserve.Concurrent(int(one(1, edge(r, 1000))))
	case 3:
		return paced().WarmUp(span(r, time.Duration(one(float64(time.Millisecond), float64(24*time.Hour)))))
	default:
		return paced()
	}
}

// Go and the scripts have the same bounds: a limit that is valid serves every verb, and one that
// is not is refused where it is made.
func TestLimitsAtTheEdges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	valid, refused := map[reserve.Kind]int{}, map[reserve.Kind]int{}
	for range 150 {
		limit := atTheEdge(r)
		if err := limit.Validate(); err != nil {
			refused[limit.Kind()]++
			require.ErrorIs(t, err, reserve.ErrInvalid)
			_, err := reserve.ParseLimit(limit.String())
			require.ErrorIs(t, err, reserve.ErrInvalid, "%v", limit)
			continue
		}
		valid[limit.Kind()]++
		synctest.Test(t, func(t *testing.T) { servesAll(t, limit) })
		if t.Failed() {
			return
		}
	}
	for _, kind := range []reserve.Kind{reserve.KindPaced, reserve.KindWarmingUp, reserve.KindQuota, reserve.KindRolling, reserve.KindSlots} {
		require.NotZero(t, valid[kind], "%v", kind)
		require.NotZero(t, refused[kind], "%v", kind)
	}
	t.Logf("MEASURE valid %v, refused %v", valid, refused)
}

// servesAll uses each verb of a limit. Calls may have to wait for years.
func servesAll(t *testing.T, limit reserve.Limit) {
	l := newBubble(t).limiter(limit)
	defer func() { assert.NoError(t, l.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	call := func(what string, n int) {
		held, err := l.Acquire(ctx, n)
		if err == nil {
			held.Release()
		} else if !errors.Is(err, reserve.ErrWouldMissDeadline) && !errors.Is(err, context.DeadlineExceeded) {
			assert.NoError(t, err, "%v: %s", limit, what)
		}
	}
	can := func(what string, err error) { assert.NoError(t, err, "%v: %s", limit, what) }
	call("the first call", 1)
	call("the most expensive call", limit.MaxBurst())
	var calls sync.WaitGroup
	for range 12 {
		calls.Go(func() { call("calls that wait", 1) })
	}
	calls.Wait()
	can("set to itself", l.SetLimit(t.Context(), limit, 0))
	can("set for long", l.SetLimit(t.Context(), limit, math.MaxInt64))
	var bookings []reserve.Call
	for i := range 12 { // all of them together may take longer than a time.Duration can tell
		bookings = append(bookings, reserve.Call{ID: string(rune('a' + i)), Costs: []int{limit.MaxBurst()}})
	}
	for _, joined := range joint(t, l).Book(t.Context(), bookings) {
		can("book", joined.Err)
		assert.False(t, joined.Due.Before(time.Now().Add(-time.Minute)), "%v: due %v", limit, joined.Due)
	}
	can("pause for long", l.Pause(t.Context(), math.MaxInt64, "for ever"))
	state, err := l.State(t.Context())
	can("state", err)
	assert.Positive(t, state.Paused, "%v", limit)
	assert.Positive(t, state.Wait, "%v", limit)
	can("resume", l.Resume(t.Context()))
	can("reset", l.ResetLimit(t.Context()))
	for _, id := range []string{"a", "c"} {
		can("leave", joint(t, l).CancelBooking(t.Context(), id, limit.MaxBurst()))
	}
}

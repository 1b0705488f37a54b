package reserve_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// soonerKind is a limit that lets calls wait for an hour or longer, and as many as it has permits
// go at once.
type soonerKind struct {
	name string
	of   func(permits int) reserve.Limit
}

var soonerKinds = []soonerKind{
	{"quota", func(n int) reserve.Limit { return reserve.Quota(n, reserve.CalendarDay) }},
	{"rolling", func(n int) reserve.Limit { return reserve.Rolling(n, 24*time.Hour) }},
	{"paced", func(n int) reserve.Limit { return reserve.Every(24 * time.Hour / time.Duration(n)).Burst(n) }},
}

// soonerWay is what makes permits come sooner. It takes care that nothing is left, and returns what
// makes `permits` of `most` come.
type soonerWay struct {
	name  string
	raise bool // the limit is another one then
	begin func(t *testing.T, s *soonerScene) (sooner func())
}

type soonerScene struct {
	kind          soonerKind
	most, permits int
	fleet         []*reserve.Limiter
	other         func(reserve.Limit) *reserve.Limiter // another process
}

func (s *soonerScene) spend(t *testing.T, l *reserve.Limiter, n int) *reserve.Reservation {
	r, err := l.ReserveN(t.Context(), n)
	require.NoError(t, err)
	require.NoError(t, r.Wait(t.Context()))
	return r
}

var soonerWays = []soonerWay{
	{"SetLimit", true, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		require.NoError(t, last.SetLimit(t.Context(), s.kind.of(s.most-s.permits), 0))
		s.spend(t, last, s.most-s.permits)
		return func() { require.NoError(t, last.SetLimit(t.Context(), s.kind.of(s.most), 0)) }
	}},
	{"ResetLimit", true, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		require.NoError(t, last.SetLimit(t.Context(), s.kind.of(s.most-s.permits), 0))
		s.spend(t, last, s.most-s.permits)
		return func() { require.NoError(t, last.ResetLimit(t.Context())) }
	}},
	{"the time of SetLimit is over", true, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		require.NoError(t, last.SetLimit(t.Context(), s.kind.of(s.most-s.permits), time.Minute))
		began := time.Now()
		s.spend(t, last, s.most-s.permits)
		return func() { time.Sleep(time.Until(began.Add(time.Minute))) }
	}},
	{"the slower process leaves", true, func(t *testing.T, s *soonerScene) func() {
		slow := s.other(s.kind.of(s.most - s.permits))
		s.spend(t, slow, s.most-s.permits)
		time.Sleep(3 * time.Second)
		return func() { require.NoError(t, slow.Close()) }
	}},
	{"Settle", false, func(t *testing.T, s *soonerScene) func() {
		all := s.spend(t, s.fleet[0], s.most)
		return func() { require.NoError(t, all.Settle(t.Context(), s.most-s.permits)) }
	}},
	{"Cancel of a turn", false, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		s.spend(t, last, s.most-s.permits)
		r, err := last.ReserveN(t.Context(), s.permits)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.True(t, r.Granted())
		return func() { require.NoError(t, r.Cancel(t.Context())) }
	}},
	{"Cancel of a place", false, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		s.spend(t, last, s.most-s.permits)
		r, err := last.ReserveN(t.Context(), s.most)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.False(t, r.Granted())
		return func() { require.NoError(t, r.Cancel(t.Context())) }
	}},
	{"Resume", false, func(t *testing.T, s *soonerScene) func() {
		last := s.fleet[len(s.fleet)-1]
		s.spend(t, last, s.most-s.permits)
		require.NoError(t, last.Pause(t.Context(), 20*time.Hour, "a test"))
		return func() { require.NoError(t, last.Resume(t.Context())) }
	}},
}

// Where permits come sooner than those who wait were told, as many go at once as there are permits
// for, in the order in which they came, and nobody who comes later before them. Redis is asked for
// not much more than that.
func TestAllGoThatCanWherePermitsComeSooner(t *testing.T) {
	for k, kind := range soonerKinds {
		for w, way := range soonerWays {
			if kind.name == "paced" && (way.raise || way.name == "Resume") {
				continue // another pace stores nothing, and neither does a pause
			}
			for i, x := range []struct {
				processes, waiting, permits int
				costs                       []int
			}{
				{1, 20, 99, []int{1}},
				{2, 20, 99, []int{1}},
				{3, 60, 30, []int{1}},
				{2, 40, 60, []int{1, 4, 2}},
			} {
				if i%2 != (k+w)%2 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d processes, %d wait for %d", kind.name, way.name, x.processes, x.waiting, x.permits), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := inbubble.New(t)
						b.Way = time.Millisecond
						limiter := func(limit reserve.Limit) *reserve.Limiter {
							return b.Limiter(b.Client(), reserve.Config{Limit: limit, Settles: true})
						}
						s := &soonerScene{kind: kind, most: 100, permits: x.permits, other: limiter}
						for range x.processes {
							s.fleet = append(s.fleet, limiter(kind.of(s.most)))
						}
						sooner := way.begin(t, s)

						ctx, leave := context.WithCancel(t.Context())
						var mu sync.Mutex
						var went []int
						var last time.Time
						var calls sync.WaitGroup
						call := func(who int) {
							calls.Go(func() {
								if s.fleet[who%x.processes].WaitN(ctx, x.costs[who%len(x.costs)]) == nil {
									mu.Lock()
									defer mu.Unlock()
									went, last = append(went, who), time.Now()
								}
							})
							time.Sleep(15 * time.Millisecond) // calls that ask together have no order
						}
						for who := range x.waiting {
							call(who)
						}
						time.Sleep(5 * time.Second)
						require.Empty(t, went)
						due, left := 0, x.permits
						for due < x.waiting && left >= x.costs[due%len(x.costs)] {
							left -= x.costs[due%len(x.costs)]
							due++
						}

						before := b.Scripts.Load()
						sooner()
						began := time.Now()
						for who := range 5 {
							call(x.waiting + who)
						}
						time.Sleep(time.Second)
						mu.Lock()
						first, took := slices.Clone(went), last.Sub(began)
						mu.Unlock()
						asked := b.Scripts.Load() - before
						t.Logf("%d of %d went within %v; %d scripts", len(first), due, took, asked)
						late := 0
						if due == x.waiting {
							for who := x.waiting; who < x.waiting+5 && left >= x.costs[who%len(x.costs)]; who++ {
								left -= x.costs[who%len(x.costs)]
								late++
							}
						}
						slices.Sort(first)
						want := []int{}
						for who := range due + late {
							want = append(want, who)
						}
						require.Equal(t, want, first, "as many as there are permits for, and the first ones")
						require.Less(t, took, 250*time.Millisecond)
						require.LessOrEqual(t, asked, int64(10+2*len(want)), "Redis is not asked in vain")
						time.Sleep(5 * time.Second)
						require.Less(t, b.Scripts.Load()-before-asked, int64(10), "nor later")
						leave()
						calls.Wait()
					})
				})
			}
		}
	}
}

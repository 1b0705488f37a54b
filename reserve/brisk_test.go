package reserve_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// brisk is processes that make thousands of calls per second of a limit.
type brisk struct {
	processes, callers int
	think              time.Duration // between two calls of a caller, on average
	way                time.Duration
	rate               float64
	burst, cost        int
	how                string // What they use.
}

func drawBrisk(r *rand.Rand) brisk {
	s := brisk{
		processes: 1 + r.IntN(3), callers: 8 + r.IntN(24), think: time.Duration(1+r.IntN(2)) * time.Millisecond,
		way: time.Duration(50+r.IntN(700)) * time.Microsecond, rate: float64(100 + r.IntN(5000)), cost: 1 + r.IntN(3), how: []string{"wait", "wait", "allow", "reserve"}[r.IntN(4)],
	}
	s.burst = 20_000 + r.IntN(100_000)
	return s
}

func (s brisk) String() string {
	return fmt.Sprintf("%d processes of %d callers, %v apart, %v away, %v/s burst %d, costs up to %d, %s", s.processes, s.callers, s.think, s.way, s.rate, s.burst, s.cost, s.how)
}

// call makes one call.
func (s brisk) call(t *testing.T, l *reserve.Limiter, cost int) bool {
	switch s.how {
	case "allow":
		ok, err := l.AllowN(t.Context(), cost)
		require.NoError(t, err)
		return ok
	case "reserve":
		r, err := l.ReserveN(t.Context(), cost)
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
	default:
		require.NoError(t, l.WaitN(t.Context(), cost))
	}
	return true
}

// played is what the calls were.
type played struct {
	calls, permits int
	quick          int         // calls that needed no round trip
	at             []time.Time // when they were made
	began          []time.Time // when they began, in the order in which they were made
}

// overtaken is how many calls were made later than one that began after them.
func (p *played) overtaken() (n int) {
	last := 0 // the call that began last of those so far
	for i := range p.at {
		if p.began[i].Before(p.began[last]) && p.at[i].After(p.at[last]) {
			n++
		}
		if p.began[i].After(p.began[last]) {
			last = i
		}
	}
	return n
}

// play lets all callers call for a time.
func (s brisk) play(t *testing.T, api *provider.Provider, limits []*reserve.Limiter, lasts time.Duration) (p played) {
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range s.processes * s.callers {
		r, l := rand.New(rand.NewPCG(uint64(i), 7)), limits[i%s.processes]
		all.Go(func() {
			for {
				time.Sleep(time.Duration(r.Float64() * 2 * float64(s.think)))
				began, cost := time.Now(), 1+r.IntN(s.cost)
				if !began.Before(end) {
					return
				}
				if !s.call(t, l, cost) {
					continue
				}
				mu.Lock()
				p.calls, p.permits, p.at = p.calls+1, p.permits+cost, append(p.at, time.Now())
				p.began = append(p.began, began)
				if time.Now().Equal(began) {
					p.quick++
				}
				api.Judge(cost)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return p
}

// limits are those of the processes, and the provider behind them.
func (s brisk) limits(b *bubble) (limits []*reserve.Limiter, api *provider.Provider) {
	b.way.Store(int64(s.way))
	for range s.processes {
		limits = append(limits, b.limiter(reserve.PerSecond(s.rate).Burst(s.burst)))
	}
	return limits, provider.New(provider.TokenBucket(s.rate*1.0001, s.burst+1))
}

// Where permits are stored, most of the calls that a process makes by the thousands need no round trip. The
// limit stays exact, and of a hundred permits at most one is lost.
// A process may have the more permits ahead the more its calls have used, so the first half second has few.
func TestBriskCalls(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			s := drawBrisk(rand.New(rand.NewPCG(seed, 1)))
			limits, api := s.limits(newBubble(t))
			p := s.play(t, api, limits, 1500*time.Millisecond)
			var lapsed int64
			for _, l := range limits {
				require.NoError(t, l.Close())
				stats := l.PrefetchStats()
				assert.Equal(t, stats.Taken, stats.Used+stats.Returned+stats.Expired, "%v: nothing is held any more: %+v", s, stats)
				lapsed += stats.Expired
			}
			t.Logf("%v: %d of %d calls without a round trip, %d permits of %d lapsed", s, p.quick, p.calls, lapsed, p.permits)
			assert.Zero(t, api.Summary().Refused, s)
			assert.GreaterOrEqual(t, p.quick, p.calls/3, s)
			assert.LessOrEqual(t, lapsed, int64(p.permits)/100, s)
		})
	}
}

// A pause ends that as soon as the processes hear of it, and no call is lost to what they had.
func TestBriskCallsPause(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			s := drawBrisk(rand.New(rand.NewPCG(seed, 2)))
			if s.how == "allow" {
				s.how = "wait"
			}
			b := newBubble(t)
			limits, api := s.limits(b)
			other := b.limiter(limits[0].Limit())
			var paused time.Time
			const lasts = 200 * time.Millisecond
			var pauses sync.WaitGroup
			pauses.Go(func() {
				time.Sleep(400 * time.Millisecond)
				require.NoError(t, other.Pause(t.Context(), lasts, "told so"))
				paused = time.Now()
			})
			p := s.play(t, api, limits, 500*time.Millisecond)
			pauses.Wait()
			during := 0
			for _, at := range p.at {
				if since := at.Sub(paused); since > 2*s.way && since < lasts-4*s.way {
					during++
				}
			}
			require.Positive(t, p.quick, s)
			assert.Zero(t, during, "%v: calls in the pause", s)
			assert.Zero(t, api.Summary().Refused, s)
			for _, l := range limits {
				require.NoError(t, l.Close())
				stats := l.PrefetchStats()
				assert.Equal(t, stats.Taken, stats.Used+stats.Returned+stats.Expired, "%v: nothing is held any more: %+v", s, stats)
			}
		})
	}
}

// Where the bucket runs dry, processes whose calls were brisk use all of the limit: what they took ahead is none that
// others lack.
func TestBriskCallsUseAll(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			s := drawBrisk(rand.New(rand.NewPCG(seed, 3)))
			s.burst, s.rate, s.cost, s.how = 3000+int(s.rate), 500, 1, "wait"
			s.callers, s.think = s.callers+8, time.Millisecond
			limits, api := s.limits(newBubble(t))
			const lasts = 2 * time.Second
			p := s.play(t, api, limits, lasts)
			most := float64(s.burst) + s.rate*lasts.Seconds()
			t.Logf("%v: %d of %.0f permits used, %d without a round trip", s, p.permits, most, p.quick)
			require.Positive(t, p.quick, s)
			assert.Zero(t, api.Summary().Refused, s)
			assert.GreaterOrEqual(t, float64(p.permits), 0.99*most, s)
		})
	}
}

// Calls of a process do not pass those that wait because they cost more than what is left of what was taken ahead. Equal
// calls keep their order; of others at most one in twenty is passed by some, as the world's law says.
func TestBriskCallsKeepTheirOrder(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			s := drawBrisk(rand.New(rand.NewPCG(seed, 4)))
			s.processes, s.how = 1, "wait"
			limits, api := s.limits(newBubble(t))
			p := s.play(t, api, limits, 400*time.Millisecond)
			t.Logf("%v: %d of %d calls were overtaken, %d had no round trip", s, p.overtaken(), p.calls, p.quick)
			assert.LessOrEqual(t, p.overtaken(), p.calls*min(s.cost-1, 1)/20, s)
		})
	}
}

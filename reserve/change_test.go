package reserve_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// horizon is how far ahead turns are given where Redis is a millisecond away.
	horizon = 250 * time.Millisecond

	// follows is how long a provider may take to follow a change of the limit.
	follows = horizon + 20*time.Millisecond
)

// changed is a limit from the moment on at which Redis knew of it.
type changed struct {
	at    time.Duration
	rate  float64 // permits per second
	burst float64
}

// follower is a strict provider that goes by each change of its limit at some moment of its own: not
// before the change, within follows, and in the order of the changes. It refuses a call only if
// there are no such moments for which it accepts all calls until then.
type follower struct {
	changes []changed
	stored  []float64 // permits of a provider that goes by the change now, at the most; below 0: there is none
	last    time.Duration
}

const impossible = -1

// refused is how many calls are refused, which are in order.
func (f *follower) refused(calls []call) (n int) {
	type step struct {
		at   time.Duration
		play func()
	}
	f.stored = slices.Repeat([]float64{impossible}, len(f.changes))
	f.stored[0] = f.changes[0].burst
	var steps []step
	for k, c := range f.changes[1:] {
		steps = append(steps, step{c.at, func() { f.stored[k+1] = 0 }}, step{c.at + follows, func() {
			for before := range k + 1 {
				f.stored[before] = impossible
			}
		}})
	}
	for _, c := range calls {
		steps = append(steps, step{c.after, func() {
			if !f.accepts(float64(c.cost)) {
				n++
			}
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		f.wait(s.at)
		s.play()
		f.wait(s.at)
	}
	return n
}

// wait lets time pass. A provider that may go by the next change already may do so from now on.
func (f *follower) wait(until time.Duration) {
	passed := (until - f.last).Seconds()
	f.last = until
	for k, c := range f.changes {
		if f.stored[k] < 0 {
			continue
		}
		f.stored[k] = min(c.burst, f.stored[k]+passed*c.rate)
		if k > 0 {
			f.stored[k] = max(f.stored[k], min(c.burst, f.stored[k-1]))
		}
	}
}

// accepts reports whether there is a provider that accepts a call now. The first calls may be
// late by a round trip, and then those behind them are early by that.
func (f *follower) accepts(cost float64) bool {
	left := slices.Clone(f.stored)
	possible := false
	for k, c := range f.changes {
		if left[k] < 0 {
			continue
		}
		if left[k] = max(0, left[k]-cost); f.stored[k]+c.rate*2*way.Seconds() < cost {
			left[k] = impossible
		}
		possible = possible || left[k] >= 0
	}
	if possible {
		f.stored = left
	}
	return possible
}

// changes are those of a limit that somebody changes again and again.
type changes struct {
	name   string
	every  time.Duration
	lasts  time.Duration
	pause  time.Duration // 0: it is not paused
	next   func(r *rand.Rand, rate float64) float64
	bursts bool // the burst changes, too
}

func between50and200(r *rand.Rand, rate float64) float64 {
	if rate > 100 {
		return 50 + 50*r.Float64()
	}
	return 200 - 50*r.Float64()
}

// onePercent goes down again and again, or up.
func onePercent(r *rand.Rand, rate float64) float64 {
	if rate < 100 || rate == 100 && r.IntN(2) == 0 {
		return rate * 0.99
	}
	return rate * 1.01
}

func same(_ *rand.Rand, rate float64) float64 { return rate }

var allChanges = []changes{
	{name: "every 50 ms", every: 50 * time.Millisecond, lasts: 800 * time.Millisecond, next: between50and200},
	{name: "every 200 ms", every: 200 * time.Millisecond, lasts: 1200 * time.Millisecond, next: between50and200, bursts: true},
	{name: "every second", every: time.Second, lasts: 2 * time.Second, next: between50and200},
	{name: "pauses", every: 50 * time.Millisecond, lasts: 1600 * time.Millisecond, pause: 10 * time.Millisecond, next: same},
	{name: "steps of 1 %", every: 50 * time.Millisecond, lasts: 800 * time.Millisecond, next: onePercent, bursts: true},
}

// A limit may be changed, or paused for a moment, again and again: no permit is lost, and a provider
// that follows each change at some moment within a horizon refuses nothing. Processes, costs, bursts,
// leases, a second limit that all calls need, and processes that hear no news are drawn.
// FLEETPACE_CHANGES plays more seeds.
func TestLimitThatChangesIsUsed(t *testing.T) {
	seeds := uint64(20)
	if redistest.Budget(raceDetector, true) { // it makes miniredis several times slower
		seeds = 5
	}
	if n, err := strconv.ParseUint(os.Getenv("FLEETPACE_CHANGES"), 10, 64); err == nil {
		seeds = n
	}
	for _, c := range allChanges {
		t.Run(c.name, func(t *testing.T) {
			var used, possible float64
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newChangingScene(t, c, seed)
						s.play()
						got, want := s.judge()
						used, possible = used+got, possible+want
					})
				})
			}
			t.Logf("%.3f of the permits were used", used/possible)
			assert.GreaterOrEqual(t, used/possible, 0.97)
		})
	}
}

// changingScene is a fleet that is always busy, and somebody who changes its limit.
type changingScene struct {
	testing.TB
	*rand.Rand
	how       changes
	b         *bubble
	log       *log
	processes int
	deaf      int // processes that hear no news: the last ones
	cost      int // of a call, at the most
	burst     int
	leases    bool
	second    bool // there is another limit, which does not change
	operator  *reserve.Limiter
	changes   []changed
	pauses    [][2]time.Duration
}

// settling is how long the limit does not change at first.
const settling = 400 * time.Millisecond

func newChangingScene(t testing.TB, how changes, seed uint64) *changingScene {
	s := &changingScene{TB: t, Rand: rand.New(rand.NewPCG(seed, 10)), how: how, b: newBubble(t)}
	s.processes = 1 + s.IntN(3)
	s.burst = []int{1, 1, 1 + s.IntN(5), 20}[s.IntN(4)]
	s.cost = 1 + s.IntN(min(s.burst, 3))
	s.leases = s.IntN(4) == 0
	s.second = s.IntN(4) == 0
	if s.IntN(4) == 0 {
		s.deaf = 1
	}
	return s
}

func (s *changingScene) String() string {
	return fmt.Sprintf("%d processes, %d deaf, costs up to %d, burst %d, leases %v, a second limit %v", s.processes, s.deaf, s.cost, s.burst, s.leases, s.second)
}

// play lets calls be made before and while the limit changes.
func (s *changingScene) play() {
	limit := reserve.PerSecond(100).Burst(s.burst)
	config := reserve.Config{Group: "g", Name: "api", Limit: limit}
	if s.leases {
		config.Prefetch = time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.log = newLog()
	for i := range s.processes {
		client := s.b.client()
		if i >= s.processes-s.deaf {
			client = s.b.deafClient()
		}
		l := s.b.on(client, config)
		wait := l.WaitN
		if s.second {
			j := joint(s, l, s.b.on(client, reserve.Config{Group: "g", Name: "other", Limit: reserve.PerSecond(1000).Burst(20)}))
			wait = func(ctx context.Context, n int) error { return j.Wait(ctx, n, n) }
		}
		costs := rand.New(rand.NewPCG(s.Uint64(), 1))
		var mu sync.Mutex
		for range 60 / s.processes {
			s.log.busy.Go(func() {
				for {
					mu.Lock()
					cost := 1 + costs.IntN(s.cost)
					mu.Unlock()
					if wait(ctx, cost) != nil {
						return
					}
					s.log.mu.Lock()
					s.log.calls = append(s.log.calls, call{s.log.now(), cost, i})
					s.log.mu.Unlock()
				}
			})
		}
		s.operator = l
	}
	s.operator = s.b.on(s.b.client(), config)
	s.changes = []changed{{0, 100, float64(s.burst)}}
	time.Sleep(settling)
	rate, burst := 100.0, s.burst
	for s.log.now() < settling+s.how.lasts {
		s.change(&rate, &burst)
		time.Sleep(s.how.every - 2*way)
	}
	time.Sleep(horizon)
	cancel()
	s.log.busy.Wait()
}

func (s *changingScene) change(rate *float64, burst *int) {
	if s.how.pause > 0 {
		require.NoError(s, s.operator.Pause(s.Context(), s.how.pause, ""))
		at := s.log.now() - way
		s.pauses = append(s.pauses, [2]time.Duration{at, at + s.how.pause})
		return
	}
	*rate = s.how.next(s.Rand, *rate)
	if s.how.bursts {
		*burst = max(s.cost, *burst+s.IntN(3)-1)
	}
	require.NoError(s, s.operator.SetLimit(s.Context(), reserve.PerSecond(*rate).Burst(*burst), time.Hour))
	s.changes = append(s.changes, changed{s.log.now() - way, *rate, float64(*burst)})
}

// judge returns the permits that were used, and those that the limit had, as it was in force.
func (s *changingScene) judge() (used, possible float64) {
	calls := s.log.all()
	f := follower{changes: s.changes}
	assert.Zero(s, f.refused(calls), "calls that are refused: %v", s)
	from, until := settling, s.log.now()
	for k, c := range s.changes {
		end := until
		if k+1 < len(s.changes) {
			end = s.changes[k+1].at
		}
		possible += max(0, end-max(c.at, from)).Seconds() * c.rate
	}
	early := make([]int, len(s.pauses))
	for _, c := range calls {
		if c.after >= from && c.after < until {
			used += float64(c.cost)
		}
		for i, p := range s.pauses {
			if c.after > p[0]+way && c.after < p[1] {
				early[i]++
				assert.GreaterOrEqual(s, c.who, s.processes-s.deaf, "a call in a pause that its process heard of: %v", s)
			}
		}
	}
	for i, p := range s.pauses {
		possible -= (p[1] - p[0]).Seconds() * 100
		assert.LessOrEqual(s, float64(early[i]), math.Ceil(horizon.Seconds()*100), "calls of a process that heard nothing: %v", s)
	}
	s.Logf("%.3f of %.0f permits: %v", used/possible, possible, s)
	return used, possible
}

// deafClient is that of a process that hears no news: what its subscription says never arrives.
func (b *bubble) deafClient() *redis.Client {
	options := *b.client().Options()
	options.Dialer = func(context.Context, string, string) (net.Conn, error) {
		dialed, err := b.mini.Dial()
		if err != nil {
			return nil, err
		}
		var deaf atomic.Bool
		return delay.Conn(dialed, delay.Way{
			Out: func(data []byte) time.Duration {
				if bytes.Contains(bytes.ToLower(data), []byte("\r\nsubscribe\r\n")) {
					deaf.Store(true)
				}
				return way
			},
			Back: func() time.Duration { return way },
			Dead: deaf.Load,
		}), nil
	}
	c := redis.NewClient(&options)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

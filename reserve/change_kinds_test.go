package reserve_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// changingKind is a kind of limit of n permits, which changes.
type changingKind struct {
	name  string
	limit func(n int) reserve.Limit
	holds time.Duration // calls hold their permits for so long

	// more is how many times as many scenes are played, because what they use varies more; 0: 1.
	more uint64

	// A provider counts the calls of that time; 0: it is paced.
	window time.Duration
	// possible is how many permits are used while n change.
	possible func(s *changingKindScene) float64
}

var changingKinds = []changingKind{
	{
		name: "warming up", more: 4, // two scenes differ by a tenth
		limit:    func(n int) reserve.Limit { return reserve.PerSecond(float64(n)).WarmUp(50 * time.Millisecond) },
		possible: func(s *changingKindScene) float64 { return s.sum(time.Second) },
	},
	{
		name: "rolling", window: time.Second,
		limit:    func(n int) reserve.Limit { return reserve.Rolling(n, time.Second) },
		possible: func(s *changingKindScene) float64 { return s.sum(time.Second) },
	},
	{
		name: "quota", window: time.Hour,
		limit: func(n int) reserve.Limit { return reserve.Quota(n, reserve.CalendarHour) },
		possible: func(s *changingKindScene) (most float64) {
			for _, c := range s.changes[1:] {
				most = max(most, c.rate-s.changes[0].rate)
			}
			return most
		},
	},
	{
		name: "slots", holds: 20 * time.Millisecond, window: 20 * time.Millisecond,
		limit: func(n int) reserve.Limit { return reserve.Concurrent(n / 10) },
		// A slot that is released is in use again within three round trips, without changes, too.
		possible: func(s *changingKindScene) float64 { return s.sum(10 * (20*time.Millisecond + 6*way)) },
	},
}

// Limits of the other kinds may be changed again and again, too. All but slots are paused for a moment
// before each change.
func TestOtherLimitThatChangesIsUsed(t *testing.T) {
	seeds := uint64(4)
	if redistest.Budget(raceDetector, true) {
		seeds = 3 // one has too few turns: a permit is more than a percent
	}
	for _, kind := range changingKinds {
		for _, every := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} {
			for _, pause := range []time.Duration{0, 10 * time.Millisecond} {
				if kind.holds > 0 && pause > 0 {
					continue // slots that are all released during a pause are idle until a process looks, 0.2 s later
				}
				t.Run(fmt.Sprintf("%s every %v, paused for %v", kind.name, every, pause), func(t *testing.T) {
					var used, possible float64
					for seed := range seeds * max(1, kind.more) {
						synctest.Test(t, func(t *testing.T) {
							s := &changingKindScene{TB: t, Rand: rand.New(rand.NewPCG(seed, 11)), kind: kind, every: every, pause: pause, b: newBubble(t)}
							s.play()
							got, want := s.judge()
							used, possible = used+got, possible+want
						})
					}
					t.Logf("%.3f of %.0f permits were used", used/possible, possible)
					assert.GreaterOrEqual(t, used/possible, 0.97)
				})
			}
		}
	}
}

// changingKindScene is a fleet that is always busy, and somebody who changes its limit.
type changingKindScene struct {
	testing.TB
	*rand.Rand
	kind    changingKind
	every   time.Duration
	pause   time.Duration // 0: there is none
	b       *bubble
	log     *log
	changes []changed
	pauses  [][2]time.Duration
	until   time.Duration
}

func (s *changingKindScene) play() {
	ctx, cancel := context.WithCancel(context.Background())
	s.log = newLog()
	for who := range 2 {
		l := s.b.limiter(s.kind.limit(100))
		for range 40 {
			s.log.busy.Go(func() {
				for s.call(ctx, l, who) == nil {
				}
			})
		}
	}
	operator := s.b.limiter(s.kind.limit(100))
	s.changes = []changed{{0, 100, 1}}
	time.Sleep(settling)
	for n := 100.0; s.log.now() < settling+800*time.Millisecond; {
		if s.pause > 0 {
			require.NoError(s, operator.Pause(s.Context(), s.pause, ""))
			at := s.log.now() - way
			s.pauses = append(s.pauses, [2]time.Duration{at, at + s.pause})
		}
		n = math.Floor(between50and200(s.Rand, n)/10) * 10
		require.NoError(s, operator.SetLimit(s.Context(), s.kind.limit(int(n)), time.Hour))
		s.changes = append(s.changes, changed{s.log.now() - way, n, 1})
		time.Sleep(s.every)
	}
	s.until = s.log.now()
	cancel()
	s.log.busy.Wait()
}

// call makes a call when it has its turn.
func (s *changingKindScene) call(ctx context.Context, l *reserve.Limiter, who int) error {
	if s.kind.holds > 0 {
		slot, err := l.Acquire(ctx, 1)
		if err != nil {
			return err
		}
		s.note(who)
		time.Sleep(s.kind.holds)
		slot.Release()
		return nil
	}
	if err := l.Wait(ctx); err != nil {
		return err
	}
	s.note(who)
	return nil
}

func (s *changingKindScene) note(who int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.calls = append(s.log.calls, call{s.log.now(), 1, who})
}

// sum is over the time of n by a time, without the pauses.
func (s *changingKindScene) sum(by time.Duration) (sum float64) {
	for k, c := range s.changes {
		end := s.until
		if k+1 < len(s.changes) {
			end = s.changes[k+1].at
		}
		sum += c.rate * max(0, end-max(c.at, settling)).Seconds()
	}
	part := 1 - float64(len(s.pauses))*s.pause.Seconds()/(s.until-settling).Seconds()
	return sum * part / by.Seconds()
}

// most is the highest n that the provider may go by at a moment.
func (s *changingKindScene) most(at time.Duration) (most float64) {
	for k, c := range s.changes {
		over := k+1 < len(s.changes) && s.changes[k+1].at+follows < at
		if c.at <= at && !over {
			most = max(most, c.rate)
		}
	}
	if s.kind.holds > 0 {
		most /= 10
	}
	return most
}

func (s *changingKindScene) judge() (used, possible float64) {
	calls := s.log.all()
	if s.kind.window == 0 {
		f := follower{changes: s.changes}
		assert.Zero(s, f.refused(calls))
	}
	first, refused := 0, 0
	for i, c := range calls {
		for c.after-calls[first].after >= s.kind.window-time.Millisecond && first < i {
			first++
		}
		if s.kind.window > 0 && float64(i+1-first) > s.most(c.after) {
			refused++
		}
		for _, p := range s.pauses {
			assert.False(s, c.after > p[0]+way && c.after < p[1], "a call in a pause: %v in %v", c, p)
		}
		if c.after >= settling && c.after < s.until {
			used++
		}
	}
	assert.Zero(s, refused, "calls that are refused")
	return used, s.kind.possible(s)
}

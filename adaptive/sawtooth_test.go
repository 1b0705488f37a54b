package adaptive_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// stretch is a time in which the provider allows so much.
type stretch struct {
	judge     *provider.Provider
	perSecond float64
	lasts     time.Duration
}

// A fleet that knows nothing of the limit finds it, from above, and again when it rose and
// when it fell. The second half of each stretch is judged: then it has had its time. With
// the race detector, which makes the scripts slow, and outside of the gate, the bucket is half as large.
// The window needs all of its calls to be judged.
func TestSawtooth(t *testing.T) {
	for name, c := range map[string]struct {
		rule   func(perSecond int) provider.Rule
		config adaptive.Config
		most   float64 // share of calls that may be refused
		least  float64 // share of the limit that must be used
	}{
		"bucket": {
			rule:   func(perSecond int) provider.Rule { return provider.TokenBucket(float64(perSecond), 3) },
			config: adaptive.Config{Decrease: 0.7, Increase: 0.5, Every: time.Second},
			most:   0.01, least: 0.8,
		},
		"window of a second": {
			rule:   func(perSecond int) provider.Rule { return provider.RollingWindow(perSecond, time.Second) },
			config: adaptive.Config{Decrease: 0.8, Increase: 0.5, Every: time.Second, Settle: 1500 * time.Millisecond},
			most:   0.01, least: 0.8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := redistest.Budget(raceDetector, true) && name == "bucket"
			synctest.Test(t, func(t *testing.T) {
				c.config.Floor, c.config.Ceiling = reserve.PerSecond(1), reserve.PerSecond(80)
				fleet := newBubble(t).fleet(4, reserve.PerSecond(60), c.config)
				stretches := []*stretch{{perSecond: 20, lasts: 100 * time.Second}, {perSecond: 40, lasts: 100 * time.Second}, {perSecond: 16, lasts: 80 * time.Second}}
				if small {
					for _, s := range stretches {
						s.perSecond, s.lasts = s.perSecond/2, s.lasts/2
					}
					c.most *= 2
				}
				for _, s := range stretches {
					s.judge = provider.New(c.rule(int(s.perSecond)))
				}
				rates := play(t, fleet, stretches)
				for _, s := range stretches {
					judge(t, s, c.most, c.least)
				}
				t.Logf("rate, every 5 s: %s", rates)
			})
		})
	}
}

// play lets 4 callers of each process call, and returns the rate over time.
func play(t *testing.T, fleet []process, stretches []*stretch) string {
	var mu sync.Mutex
	current := stretches[0].judge
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for _, p := range fleet {
		for range 4 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if !assert.NoError(t, p.Wait(t.Context())) {
						return
					}
					sent := time.Now()
					time.Sleep(20 * time.Millisecond)
					mu.Lock()
					ok, _ := current.Judge(1)
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
					p.rate.Report(sent, !ok)
				}
			})
		}
	}
	var rates strings.Builder
	for _, s := range stretches {
		mu.Lock()
		current = s.judge
		mu.Unlock()
		for range int(s.lasts / (5 * time.Second)) {
			time.Sleep(5 * time.Second)
			fmt.Fprintf(&rates, "%.0f ", fleet[0].now(t))
		}
		rates.WriteString("| ")
	}
	close(stop)
	callers.Wait()
	synctest.Wait()
	return rates.String()
}

func judge(t *testing.T, s *stretch, most, least float64) {
	history := s.judge.History()
	all, refused, passed := 0, 0, 0
	for _, call := range history {
		if call.Refused {
			all++
		}
		if call.At.Sub(history[0].At) < s.lasts/2 {
			continue
		}
		if call.Refused {
			refused++
		} else {
			passed++
		}
	}
	used := float64(passed) / (s.perSecond * s.lasts.Seconds() / 2)
	share := float64(refused) / float64(refused+passed)
	t.Logf("ADAPTIVE %g/s: refused %.2f %% of all calls, once found %.2f %%; %.1f %% of the limit used then",
		s.perSecond, 100*float64(all)/float64(len(history)), 100*share, 100*used)
	require.LessOrEqual(t, share, most)
	require.GreaterOrEqual(t, used, least)
}

package world

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// histories is how many histories the gate plays: each takes a third of a second of one core. Under the race detector
// each takes four times as long, and one thread has no races.
const (
	histories      = 120
	fewerHistories = 30
)

// The laws hold in histories that are drawn at random. FLEETPACE_WORLD_SEED plays one of them and prints
// what happens. FLEETPACE_WORLD=1h plays new seeds for that time.
func TestHistories(t *testing.T) {
	if text := os.Getenv("FLEETPACE_WORLD_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p := draw(seed)
		t.Logf("\n%v", p)
		w := play(p, true, nil)
		w.tell(t)
		return
	}
	first, last, until := uint64(1), redistest.Budget[uint64](histories, fewerHistories), time.Time{}
	if raceDetector {
		last = fewerHistories
	}
	if text := os.Getenv("FLEETPACE_WORLD"); text != "" {
		lasts, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		first, until = uint64(time.Now().UnixMicro()), time.Now().Add(lasts)
		last = first + 1e9
	}
	const failures, workers = 3, 2
	var next, played, failed atomic.Uint64
	var simulated atomic.Int64
	next.Store(first)
	t.Run("seeds", func(t *testing.T) {
		for k := range workers {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				for {
					seed := next.Add(1) - 1
					if seed > last || failed.Load() >= failures || !until.IsZero() && time.Now().After(until) {
						return
					}
					w := play(draw(seed), false, nil)
					played.Add(1)
					simulated.Add(int64(w.now))
					if len(w.violations) > 0 {
						failed.Add(1)
						report(t, w)
					}
				}
			})
		}
	})
	t.Logf("%d histories from seed %d, %v of simulated time", played.Load(), first, time.Duration(simulated.Load()).Round(time.Second))
}

// A history follows from its seed: two plays are the same.
func TestPlaysOfASeedAreTheSame(t *testing.T) {
	for _, seed := range []uint64{5, 7, 9, 40, 53, 57, 82, 87} {
		var told [2]string
		for k := range told {
			w := play(draw(seed), true, nil)
			told[k] = fmt.Sprintf("%s\n%d things were planned until %v, %s, script calls %v took %v", strings.Join(w.notes, "\n"), w.count, w.now, w.endings(), w.server.calls, w.server.work)
		}
		require.Equal(t, told[0], told[1], "seed %d", seed)
	}
}

// report cuts a history that broke a law down, and logs the rest.
func report(t *testing.T, w *world) {
	t.Helper()
	v := w.violations[0]
	smaller := cut(w.plan, 60, func(p *plan) bool { return breaks(p, v.law, nil) })
	t.Errorf("FLEETPACE_WORLD_SEED=%d breaks a law: %v\nIt still does so after this is left of it:\n%v", w.plan.seed, v, smaller)
}

// breaks reports whether a history breaks a law.
func breaks(p *plan, law string, wrong func(string) string) bool {
	for _, v := range play(p, false, wrong).violations {
		if v.law == law {
			return true
		}
	}
	return false
}

// tell logs what happened, and fails if a law was broken.
func (w *world) tell(t *testing.T) {
	t.Helper()
	for _, n := range w.notes {
		t.Log(n)
	}
	t.Logf("%v: %s; script calls %v", w.now, w.endings(), w.server.calls)
	for _, v := range w.violations {
		t.Error(v)
	}
}

// endings counts calls by the way in which they ended.
func (w *world) endings() (text string) {
	for how, n := range w.ended {
		if n > 0 {
			text += fmt.Sprintf("%d %v ", n, state(how))
		}
	}
	return text
}

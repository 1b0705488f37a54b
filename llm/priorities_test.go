package llm_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
)

// Scenario 10: ten tenants have a backlog of calls that never ends, from 1,000 to 100,000 tokens each. Urgent calls use
// two fifths of the account. Each tenant uses a tenth of the other tokens. With FLEETPACE_LONG it takes ten minutes.
// Otherwise it takes one, and calls have four tenths of the tokens, so a call more or less counts.
func TestTenantsForLong(t *testing.T) { synctest.Test(t, tenantsForLong) }

func tenantsForLong(t *testing.T) {
	const tenants, perMinute = 10, 1_500_000
	unit, lasts, differs := 400., time.Minute, 0.01+0.044
	if os.Getenv("FLEETPACE_LONG") != "" {
		unit, lasts, differs = 1000, 10*time.Minute, 0.01
	}
	b := bubble.New(t)
	var fleet []*llm.Set
	for range 2 {
		fleet = append(fleet, newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("m", 0, perMinute)}))
	}
	from := 20 * time.Second // the full bucket and the first turns are over
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(from+lasts, cancel)
	var mu sync.Mutex
	var used [tenants]float64
	var gaps [tenants]time.Duration
	var waits []time.Duration
	began := time.Now()
	var calls sync.WaitGroup
	for i := range tenants {
		tokens := int(unit * math.Pow(100, float64(i)/(tenants-1)))
		ctx := llm.Tenant(ctx, fmt.Sprint("tenant ", i), 1)
		last := began
		for k := range max(2, min(20, 200_000/tokens)) {
			calls.Go(func() {
				for {
					call, err := fleet[k%2].Acquire(ctx, llm.Estimate{Input: tokens})
					if err != nil {
						return
					}
					mu.Lock()
					if gaps[i] = max(gaps[i], time.Since(last)); time.Since(began) > from {
						used[i] += float64(tokens)
					}
					last = time.Now()
					mu.Unlock()
					time.Sleep(time.Second)
					call.Done()
				}
			})
		}
	}
	for k := 0; ctx.Err() == nil; k++ {
		calls.Go(func() {
			start := time.Now()
			if call, err := fleet[k%2].Acquire(llm.Urgent(ctx), llm.Estimate{Input: 5000}); err == nil {
				mu.Lock()
				waits = append(waits, time.Since(start))
				mu.Unlock()
				call.Done()
			}
		})
		time.Sleep(time.Second / 2)
	}
	calls.Wait()
	slices.Sort(waits)
	all := 0.
	for _, tokens := range used {
		all += tokens
	}
	t.Logf("%d urgent calls, 95 %% of them waited at most %v, all %v; tenants %.3f of the limit", len(waits), waits[len(waits)*95/100], waits[len(waits)-1], all/(perMinute*lasts.Minutes()))
	assert.LessOrEqual(t, waits[len(waits)*95/100], 2*time.Second)
	assert.InDelta(t, 0.595, all/(perMinute*lasts.Minutes()), 0.015)
	row(t, "10. A backlog of ten tenants, beside urgent calls", "60 % of the tokens", 0.97, all/(0.6*perMinute*lasts.Minutes()))
	for i, tokens := range used {
		t.Logf("tenant %d: %.4f of the tenants' tokens, longest gap %v", i, tokens/all, gaps[i])
		assert.InDelta(t, 0.1, tokens/all, differs)
		each := unit * math.Pow(100, float64(i)/(tenants-1)) / (perMinute * 0.06 / 60) // seconds of its part
		assert.Less(t, gaps[i].Seconds(), unit/50+1.5*each, "nobody starves, also while each tenant has its first turn")
	}
}

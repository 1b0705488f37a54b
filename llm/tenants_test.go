package llm_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
)

// Ten tenants with a backlog of calls from 1,000 to 100,000 tokens share an account with calls for which people wait.
// These use two fifths of it, and wait for less than a second, also while each tenant has its first turn. The tenants
// get the rest.
func TestTenantsAndPeople(t *testing.T) {
	for _, background := range []float64{0.95, 1} {
		t.Run(fmt.Sprint("background ", background), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				const tenants, rate, lasts = 10, 1_500_000, 25 * time.Second
				var fleet []*llm.Set
				for range 2 {
					fleet = append(fleet, newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("m", 0, rate), Background: background}))
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(lasts, cancel)
				var mu sync.Mutex
				used, waits, last := 0, []time.Duration{}, time.Duration(0)
				began := time.Now()
				var calls sync.WaitGroup
				for i := range tenants {
					tokens := int(1000 * math.Pow(100, float64(i)/(tenants-1)))
					ctx := llm.Tenant(ctx, fmt.Sprint("tenant ", i), 1)
					for k := range min(20, 200_000/tokens) {
						calls.Go(func() {
							for {
								call, err := fleet[k%2].Acquire(ctx, llm.Estimate{Input: tokens})
								if err != nil {
									return
								}
								mu.Lock()
								used, last = used+tokens, time.Since(began)
								mu.Unlock()
								time.Sleep(time.Second)
								call.Close()
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
							call.Close()
						}
					})
					time.Sleep(time.Second / 2)
				}
				calls.Wait()
				slices.Sort(waits)
				// Without the full bucket of the beginning, until the last turn: a large call takes seconds to have the next.
				part := float64(used-250_000) / (rate * last.Minutes())
				t.Logf("%d people: median %v, p95 %v, most %v; tenants %.3f of the limit", len(waits), waits[len(waits)/2], waits[len(waits)*95/100], waits[len(waits)-1], part)
				assert.GreaterOrEqual(t, len(waits), 49)
				assert.Less(t, waits[len(waits)-1], time.Second)
				assert.GreaterOrEqual(t, part, 0.58)
			})
		})
	}
}

// Tenants whose calls are small get as much as others, also where the part of background calls is a limit of its own.
func TestEqualTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("m", 0, 1_500_000), Background: 0.9})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start, costs := time.Now(), [...]int{2000, 5000, 12_000, 30_000}
		var used [len(costs)]atomic.Int64
		var calls sync.WaitGroup
		call := func(ctx context.Context, cost int, used *atomic.Int64) bool {
			call, err := set.Acquire(ctx, llm.Estimate{Input: cost})
			if err != nil {
				return false
			}
			if time.Since(start) > 5*time.Second { // the full bucket is for who comes first
				used.Add(int64(cost))
			}
			time.Sleep(time.Second)
			call.Close()
			return true
		}
		for i, cost := range costs {
			for range min(20, 200_000/cost) {
				calls.Go(func() {
					for call(llm.Tenant(ctx, fmt.Sprint(i), 1), cost, &used[i]) {
					}
				})
			}
		}
		for ctx.Err() == nil {
			var people atomic.Int64
			calls.Go(func() { call(llm.Urgent(ctx), 5000, &people) })
			time.Sleep(time.Second / 2)
		}
		calls.Wait()
		sum := int64(0)
		for i := range used {
			sum += used[i].Load()
		}
		for i := range used {
			t.Log(used[i].Load())
			assert.InDelta(t, sum/int64(len(used)), used[i].Load(), 30_000, "a call")
		}
	})
}

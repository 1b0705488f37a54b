package integration

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	asynqworker "github.com/fleetpace/fleetpace/worker"
)

// graphQL is a shop at Shopify's GraphQL Admin API. Another program uses its bucket, too.
type graphQL struct{ *emulator.Shop }

const (
	mostPoints    = 1000
	requested     = 101
	actual        = 46
	othersPerTick = 20
)

// query is a query of ours.
func (g graphQL) query(takes time.Duration) emulator.ThrottleStatus {
	if status := g.Begin(time.Now(), requested); status.Throttled {
		return status
	}
	time.Sleep(takes)
	return g.End(time.Now(), requested, actual)
}

// others is another program that uses points each second.
func (g graphQL) others(ctx context.Context) {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		g.Others(time.Now(), othersPerTick)
	}
}

// Two processes query five shops. The points of each shop come twice as fast from half of the time on, and another
// program uses some of them. Almost no query is throttled, and all points are used.
func TestShopify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, shops, margin = 300, 5, 85
		f := asynqtest.Open(t)
		api, err := emulator.NewShopify(emulator.ShopifyConfig{Points: mostPoints, Rate: 50})
		require.NoError(t, err)
		shop := map[string]graphQL{}
		for i := range shops {
			name := "shop-" + strconv.Itoa(i)
			g := graphQL{api.Shop(name)}
			shop[name] = g
			go g.others(t.Context())
		}
		begin := time.Now()
		for p := range 2 {
			points, err := reserve.New(f.Client(), reserve.Config{Name: "shopify", Limit: reserve.PerSecond(50).Burst(mostPoints - margin), Settles: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = points.Close() })
			var rates sync.Map
			w, err := asynqworker.New(points, asynqworker.Config{Logger: slog.New(slog.DiscardHandler), Need: func(_ context.Context, task *asynq.Task) (asynqworker.Need, error) {
				return asynqworker.Need{Key: string(task.Payload()), Cost: requested}, nil
			}})
			require.NoError(t, err)
			f.Serve(w, asynqtest.Config(20), func(ctx context.Context, task *asynq.Task) error {
				name := string(task.Payload())
				of := points.For(name)
				answer := shop[name].query(300*time.Millisecond + rand.N(500*time.Millisecond))
				if answer.RestoreRate != 50 {
					if _, known := rates.Swap(name, answer.RestoreRate); !known {
						require.NoError(t, of.SetLimit(ctx, reserve.PerSecond(answer.RestoreRate).Burst(mostPoints-margin), 0))
					}
				}
				if answer.Throttled {
					wait := time.Duration((requested - answer.CurrentlyAvailable) / answer.RestoreRate * float64(time.Second))
					require.NoError(t, of.PauseKeeping(ctx, wait, "THROTTLED"))
					return assert.AnError
				}
				require.NoError(t, asynqworker.Settle(ctx, actual))
				require.NoError(t, asynqworker.Told(ctx, max(0, answer.CurrentlyAvailable-margin)))
				f.Ran(name, p)
				return nil
			})
		}
		client := asynq.NewClientFromRedisClient(f.Client())
		for i := range tasks {
			_, err := client.Enqueue(asynq.NewTask("query", []byte("shop-"+strconv.Itoa(i%shops))), asynq.Queue(asynqtest.Queue))
			require.NoError(t, err)
		}
		f.Until(tasks/2, 5*time.Minute)
		for _, g := range shop {
			g.SetRate(time.Now(), 100)
		}
		f.Until(tasks, 5*time.Minute)
		var used, left float64
		for name, g := range shop {
			r := g.Report()
			used, left = used+r.Used, left+r.Left
			t.Logf("%s: %.0f points used within %v, and %.0f left, %d queries throttled", name, r.Used, r.Last.Sub(begin), r.Left, r.Throttled)
			assert.Zero(t, r.Throttled)
		}
		t.Logf("%.3f of the points that others left are used", used/(used+left))
		assert.GreaterOrEqual(t, used/(used+left), 0.96)
		page, err := os.ReadFile("../docs/models.md")
		require.NoError(t, err)
		assert.Contains(t, string(page), "| 9. Five shops of Shopify, beside another program | 30 points/s, then 80 | 0.96 | 0.97 |")
		assert.InDelta(t, 0.97, used/(used+left), 0.025)
	})
}

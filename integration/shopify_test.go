package integration

import (
	"context"
	"log/slog"
	"math/rand/v2"
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
	asynqworker "github.com/fleetpace/fleetpace/worker"
)

// graphQL is the bucket of a shop at Shopify's GraphQL Admin API. A query needs its requested cost at once, and gets
// what it did not use back with its answer. Another program uses the bucket, too.
type graphQL struct {
	mu        sync.Mutex
	level     float64
	at        time.Time
	rate      float64 // points per second
	throttled int
	used      float64 // by our queries
	last      time.Time
	left      float64 // after the last query had begun
}

const (
	mostPoints    = 1000
	requested     = 101
	actual        = 46
	othersPerTick = 20
)

// status is extensions.cost.throttleStatus of an answer.
type status struct {
	throttled                       bool
	currentlyAvailable, restoreRate float64
}

// moves lets points come until now. The lock must be held.
func (g *graphQL) moves() {
	now := time.Now()
	g.level, g.at = min(g.level+g.rate*now.Sub(g.at).Seconds(), mostPoints), now
}

// query is a query of ours.
func (g *graphQL) query(takes time.Duration) status {
	g.mu.Lock()
	g.moves()
	if g.level < requested {
		g.throttled++
		defer g.mu.Unlock()
		return status{true, g.level, g.rate}
	}
	g.level -= requested
	g.last, g.left = g.at, g.level
	g.mu.Unlock()
	time.Sleep(takes)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moves()
	g.level += requested - actual
	g.used += actual
	return status{false, g.level, g.rate}
}

// others is another program that uses points each second.
func (g *graphQL) others(ctx context.Context) {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		g.mu.Lock()
		if g.moves(); g.level >= othersPerTick {
			g.level -= othersPerTick
		}
		g.mu.Unlock()
	}
}

// Two processes query five shops. The points of each shop come twice as fast from half of the time on, and another
// program uses some of them. Almost no query is throttled, and all points are used.
func TestShopify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, shops, margin = 300, 5, 85
		f := asynqtest.Open(t)
		shop := map[string]*graphQL{}
		for i := range shops {
			g := &graphQL{level: mostPoints, at: time.Now(), rate: 50}
			shop["shop-"+strconv.Itoa(i)] = g
			go g.others(t.Context())
		}
		begin := time.Now()
		for p := range 2 {
			points, err := reserve.New(f.Client(), reserve.Config{Name: "shopify", Limit: reserve.PerSecond(50).Burst(mostPoints - margin), Settles: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = points.Close() })
			var rates sync.Map
			w, err := asynqworker.New(points, asynqworker.Config{Logger: slog.New(slog.DiscardHandler), Turn: func(_ context.Context, task *asynq.Task) (asynqworker.Turn, error) {
				return asynqworker.Turn{Key: string(task.Payload()), Cost: requested}, nil
			}})
			require.NoError(t, err)
			f.Serve(w, asynqtest.Config(20), func(ctx context.Context, task *asynq.Task) error {
				name := string(task.Payload())
				of := points.For(name)
				answer := shop[name].query(300*time.Millisecond + rand.N(500*time.Millisecond))
				if answer.restoreRate != 50 {
					if _, known := rates.Swap(name, answer.restoreRate); !known {
						require.NoError(t, of.SetLimit(ctx, reserve.PerSecond(answer.restoreRate).Burst(mostPoints-margin), 0))
					}
				}
				if answer.throttled {
					wait := time.Duration((requested - answer.currentlyAvailable) / answer.restoreRate * float64(time.Second))
					require.NoError(t, of.PauseKeeping(ctx, wait, "THROTTLED"))
					return assert.AnError
				}
				require.NoError(t, asynqworker.Settle(ctx, actual))
				require.NoError(t, asynqworker.Told(ctx, max(0, answer.currentlyAvailable-margin)))
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
			g.mu.Lock()
			g.moves()
			g.rate = 100
			g.mu.Unlock()
		}
		f.Until(tasks, 5*time.Minute)
		var used, left float64
		for name, g := range shop {
			used, left = used+g.used, left+g.left
			t.Logf("%s: %.0f points used within %v, and %.0f left, %d queries throttled", name, g.used, g.last.Sub(begin), g.left, g.throttled)
			assert.Zero(t, g.throttled)
		}
		t.Logf("%.3f of the points that others left are used", used/(used+left))
		assert.GreaterOrEqual(t, used/(used+left), 0.96)
	})
}

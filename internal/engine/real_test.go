package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// On a real Redis everybody has a turn, at the limit's pace, and nothing is left behind.
func TestOnRealRedis(t *testing.T) {
	server := redistest.New(t)
	prefix := redistest.Prefix(t)
	keys := scripts.Keys(prefix, "", "api", "p", "")
	const perSecond, processes, calls = 1000, 3, 100
	admin := server.Client(t)
	began, err := admin.Time(t.Context()).Result()
	require.NoError(t, err)
	var made atomic.Int64
	var fleet sync.WaitGroup
	for range processes {
		client := server.Client(t)
		a := engine.Start(client, engine.Config{
			Channel: prefix + ":news", Dead: 3 * time.Second, Failures: 3, Probe: 500 * time.Millisecond,
			Away: engine.AwayWait, Share: func(*wire.Limit) (float64, int) { return 1, 1 },
			Errors: engine.Errors{Closed: errClosed, Missed: func(time.Time, time.Time, int) error { return errLate }},
		}, "wait", nil)
		beats := scripts.BeatKeys(prefix, "", "api")
		name := &wire.Name{Life: beats[:2], Keys: beats[2:], Kind: "p", Pace: perSecond, Limit: "1000/s"}
		limit := wire.NewLimit(wire.Terms{Kind: "p", A: 1e6 / perSecond, B: 1}, keys, name)
		fleet.Go(func() {
			defer a.Close()
			var waiting sync.WaitGroup
			for range calls {
				waiting.Go(func() {
					if _, err := a.Wait(t.Context(), one(limit)); err != nil {
						t.Errorf("wait: %v", err)
						return
					}
					made.Add(1)
				})
			}
			waiting.Wait()
		})
	}
	fleet.Wait()
	require.EqualValues(t, processes*calls, made.Load())
	free, err := admin.HGet(t.Context(), keys[0], "nextFreeTicketMicros").Int64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, free, began.UnixMicro()+(processes*calls-1)*1e6/perSecond, "each has paid, by Redis's clock")
	left, err := admin.ZCard(t.Context(), keys[1]).Result()
	require.NoError(t, err)
	require.Zero(t, left, "places")
}

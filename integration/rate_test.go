package integration

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/reserve"
)

// The limit of 4 processes is halved and raised under load. A process may learn of a change late.
// Once older turns have passed, the turns keep the limit that is in force. No permit is granted
// twice at any time.
func TestRateChangesUnderLoad(t *testing.T) {
	long(t, "takes 8 s")
	t.Parallel()
	const processes = 4
	rates := []int{100, 50, 200}
	s := newFleetScene(t, rates[0], 50)
	options, err := redis.ParseURL(s.job.Redis)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limiter, err := reserve.New(client, reserve.Config{
		Name: "api", Prefix: s.job.Prefix, Limit: reserve.PerSecond(float64(rates[0])),
	})
	require.NoError(t, err)
	defer func() { _ = limiter.Close() }()
	var fleet []*worker
	for range processes {
		fleet = append(fleet, startWorker(t, s.job))
	}
	allCall(t, s.ledger, processes)
	s.more(int64(rates[0]) / 2)
	from := make([]time.Time, len(rates))
	until := make([]time.Time, len(rates))
	for i, rate := range rates {
		if i > 0 {
			until[i-1] = time.Now()
			require.NoError(t, limiter.SetLimit(t.Context(), reserve.PerSecond(float64(rate)), 0))
			from[i] = time.Now().Add(ahead)
		}
		time.Sleep(2 * ahead)
		s.more(int64(rate) / 4)
	}
	until[len(rates)-1] = time.Now()
	for _, w := range fleet {
		require.Empty(t, w.stop().Errors)
	}
	turns := turnsIn(t, s.ledger)
	// Around a change, some processes use the old limit and some the new one. Together they keep the
	// sum of both.
	most := 0
	for i := range rates[1:] {
		most = max(most, rates[i]+rates[i+1])
	}
	keep(t, ledger.Limit{Rate: float64(most), Burst: 2}, turns)
	for i, rate := range rates {
		during := ledger.During(turns, from[i], until[i])
		require.NotEmpty(t, during)
		keep(t, ledger.Limit{Rate: float64(rate), Burst: 1}, during)
		length := during[len(during)-1].Moment().Sub(during[0].Moment())
		measure(t, t.Name(), map[string]any{
			"rate": rate, "turns": len(during), "utilization": round(float64(len(during)-1) / length.Seconds() / float64(rate)),
		})
	}
}

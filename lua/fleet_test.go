package lua

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/quick"
)

// still is a Redis in which no key expires: its time is not the one that is simulated, and a
// machine may take longer for a simulation than keys live.
func still(t *testing.T) *redis.Client {
	r, err := quick.New()
	require.NoError(t, err)
	r.ClockTTL(false)
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return r.Dial() }})
	t.Cleanup(func() {
		_ = client.Close()
		r.Close()
	})
	return client
}

func single(cost float64) []queuemodel.Part { return []queuemodel.Part{{Cost: cost}} }

// Rule 2: ten turns of a full bucket that nobody uses for nine intervals are over.
func TestTurnsOfAFullBucketAreOverAtOnce(t *testing.T) {
	eachDesk(t, func(d *desk) {
		_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 10, Number: 1, Parts: single(1)}})
		require.NoError(d, err)
		for k, a := range answers {
			require.Equal(d, 1, a.Status)
			require.Zero(d, a.Wait)
			require.Equal(d, float64(k)*second, a.Usable, "what is held for longer would overflow")
		}
	}, queuemodel.Limit{Kind: "p", A: second, B: 10})
}

// Rule 1: a cost above a burst that was lowered is refused, and tells what is in force.
func TestCostAboveALoweredBurst(t *testing.T) {
	eachDesk(t, func(d *desk) {
		_, err := d.server.Set(d.who, d.limits, second, 3, 0)
		require.NoError(d, err)
		_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 1, Number: 1, Parts: single(5)}})
		require.NoError(d, err)
		require.Equal(d, 2, answers[0].Status)
	}, queuemodel.Limit{Kind: "p", A: second, B: 10})
}

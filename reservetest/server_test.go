package reservetest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inBubble(t *testing.T, test func(t *testing.T, server *reservetest.Server)) {
	synctest.Test(t, func(t *testing.T) { test(t, reservetest.New(t)) })
}

func config(limit reserve.Limit) reserve.Config {
	return reserve.Config{Name: "api", Limit: limit, Outage: reserve.Outage{Policy: reserve.PolicyWait}}
}

// A call that waits for minutes does not sleep, in one bubble after the other, and side by side.
func TestBubbles(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *reservetest.Server) {
				l := server.Limiter(config(reserve.PerHour(6)))
				began := time.Now()
				require.NoError(t, l.Wait(t.Context()))
				require.NoError(t, l.Wait(t.Context()))
				require.InDelta(t, 10*time.Minute, time.Since(began), float64(time.Second))
			})
		})
	}
}

func TestKeysExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		client := server.Client()
		require.NoError(t, client.Set(t.Context(), "key", "value", time.Minute).Err())
		time.Sleep(59 * time.Second)
		require.EqualValues(t, 1, client.Exists(t.Context(), "key").Val())
		time.Sleep(2 * time.Second)
		require.Zero(t, client.Exists(t.Context(), "key").Val())
	})
}

// A call that still waits as the test ends hears of that, and no goroutine is left.
func TestTheEnd(t *testing.T) {
	ended := make(map[string]error)
	t.Run("test", func(t *testing.T) {
		inBubble(t, func(t *testing.T, server *reservetest.Server) {
			kits := server.Limiter(reserve.Config{Name: "kit's", Limit: reserve.PerHour(1)})
			own, err := reserve.New(server.Client(), reserve.Config{Name: "own", Limit: reserve.PerHour(1)})
			require.NoError(t, err)
			t.Cleanup(func() { _ = own.Close() })
			joint := server.Joint(
				reserve.Config{Name: "one", Group: "api", Limit: reserve.PerHour(1)},
				reserve.Config{Name: "two", Group: "api", Limit: reserve.PerHour(1)})
			for _, wait := range []func(context.Context) error{
				kits.Wait, own.Wait, func(ctx context.Context) error { return joint.Wait(ctx) },
			} {
				require.NoError(t, wait(t.Context()))
				heard := make(chan error, 1)
				go func() { heard <- wait(context.Background()) }()
				t.Cleanup(func() { ended[fmt.Sprint(len(ended))] = <-heard })
			}
			synctest.Wait()
			// Cleanups run in the reverse order: these come after those that wait are asked.
			for _, l := range append(joint.Limits(), kits, own) {
				t.Cleanup(func() { _ = l.Close() })
			}
		})
	})
	require.Len(t, ended, 3)
	for _, err := range ended {
		assert.ErrorIs(t, err, reserve.ErrClosed)
	}
}

// Who waits is told so by the Server, too, which closes what it made.
func TestTheServerCloses(t *testing.T) {
	var errs [2]error
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		l := server.Limiter(config(reserve.PerHour(1)))
		require.NoError(t, l.Wait(t.Context()))
		for i := range errs {
			go func() { errs[i] = l.Wait(context.Background()) }()
		}
		synctest.Wait()
	})
	for _, err := range errs {
		assert.ErrorIs(t, err, reserve.ErrClosed)
	}
}

// A call needs several limits, and is held back by the slower one.
func TestJoint(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		requests := reserve.Config{Name: "requests", Group: "api", Limit: reserve.PerMinute(60)}
		tokens := reserve.Config{Name: "tokens", Group: "api", Limit: reserve.PerMinute(600).Burst(100)}
		first, second := server.Joint(requests, tokens), server.Joint(requests, tokens)
		began := time.Now()
		require.NoError(t, first.Wait(t.Context(), 1, 100))
		require.NoError(t, second.Wait(t.Context(), 1, 50))
		require.InDelta(t, 5*time.Second, time.Since(began), float64(50*time.Millisecond))
	})
}

// Outside of a bubble all works in real time.
func TestRealTime(t *testing.T) {
	server := reservetest.New(t)
	l := server.Limiter(config(reserve.PerSecond(20)))
	began := time.Now()
	for range 3 {
		require.NoError(t, l.Wait(t.Context()))
	}
	require.GreaterOrEqual(t, time.Since(began), 90*time.Millisecond)
	server.Outage(time.Hour)
	require.Error(t, server.Client().Ping(t.Context()).Err())
	server.Outage(0)
	require.NoError(t, l.Wait(t.Context()))
}

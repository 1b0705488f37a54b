package reserve_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// A Redis that stores no data restarts, and no request fails: the client finds its connections closed, and
// makes others. A process that then first asks for a key that only another process has used has no turn. Its
// heartbeat may have met the new server before.
func TestKeysOfOthersAfterARestart(t *testing.T) {
	for name, beats := range map[string]bool{"the first message is an ask": false, "the first message is a heartbeat": true} {
		t.Run(name, func(t *testing.T) { keysOfOthersAfterARestart(t, beats) })
	}
}

func keysOfOthersAfterARestart(t *testing.T, beats bool) {
	server := redistest.Private(t, redistest.PrivateOptions{})
	limits := map[string]reserve.Limit{
		"paced": reserve.PerHour(1), "burst": reserve.PerHour(20).Burst(20), "warming": reserve.PerHour(1).WarmUp(time.Hour), "slots": reserve.Concurrent(1),
	}
	process := func() map[string]*reserve.Limiter {
		all := map[string]*reserve.Limiter{}
		for kind, limit := range limits {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			l, err := reserve.New(client, reserve.Config{Name: kind, Limit: limit})
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			all[kind] = l
		}
		return all
	}
	one, two := process(), process()
	calls := func(l *reserve.Limiter, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := l.Acquire(ctx, 1)
		return err
	}
	usesUp := func(l *reserve.Limiter) {
		within, err := time.Minute, error(nil) // a call whose turn comes later fails at once
		for err == nil {
			if err = calls(l, within); l.Limit().Kind() == reserve.KindSlots {
				within = 300 * time.Millisecond // nobody knows when a slot is free
			}
		}
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is left")
	}
	for kind := range limits {
		usesUp(one[kind].For("of one")) // its heartbeat is answered: it knows the server
		usesUp(two[kind].For("of both"))
	}
	server.Kill()
	server.Start()
	for kind := range limits {
		if beats {
			require.Eventually(t, func() bool {
				n, err := server.Client(t).ZCard(t.Context(), "fleetpace:{"+kind+"}:processes").Result()
				return err == nil && n == 2
			}, 10*time.Second, 10*time.Millisecond)
		}
		require.Error(t, calls(one[kind].For("of both"), 300*time.Millisecond), "%s: the other process has used it", kind)
	}
}

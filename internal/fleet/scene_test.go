package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// scene is a Redis, limits that this process uses, and a reader.
type scene struct {
	*testing.T
	*fleet.Reader
	client redis.UniversalClient
	prefix string
}

func newScene(t *testing.T, server *redistest.Server) *scene {
	s := &scene{T: t, client: server.Client(t), prefix: redistest.Prefix(t)}
	s.Reader = fleet.New(s.client, s.prefix)
	t.Cleanup(s.Reader.Close)
	return s
}

// eventually is for how long something may take to be seen: a heartbeat comes every second.
const eventually, often = 20 * time.Second, 20 * time.Millisecond

// limiter is of a process of its own, as it shares nothing.
func (s *scene) limiter(name, group string, limit reserve.Limit) *reserve.Limiter {
	s.Helper()
	l, err := reserve.New(s.client, reserve.Config{Name: name, Group: group, Prefix: s.prefix, Limit: limit})
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// used is a limiter that has been used once, and whose process is known.
func (s *scene) used(name, group string, limit reserve.Limit) *reserve.Limiter {
	l := s.limiter(name, group, limit)
	if limit.Kind() == reserve.KindSlots {
		r, err := l.Acquire(s.Context(), 1)
		require.NoError(s, err)
		r.Release()
	} else {
		require.NoError(s, l.Wait(s.Context()))
	}
	require.Eventually(s, func() bool {
		survey, err := s.Survey(s.Context(), fleet.Name{Name: name, Group: group})
		require.NoError(s, err)
		return survey.Alive() > 0
	}, eventually, often)
	return l
}

// turns are what calls wait for.
type turns interface {
	Wait(ctx context.Context) error
}

type joint struct{ *reserve.Joint }

func (j joint) Wait(ctx context.Context) error { return j.Joint.Wait(ctx) }

// waiting lets calls wait until the test ends, and returns when as many have a place.
func (s *scene) waiting(of turns, at *reserve.Limiter, calls int) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, calls)
	for range calls {
		go func() {
			_ = of.Wait(ctx)
			done <- struct{}{}
		}()
	}
	s.Cleanup(func() {
		cancel()
		for range calls {
			<-done
		}
	})
	require.Eventually(s, func() bool {
		state, err := at.State(s.Context())
		require.NoError(s, err)
		return state.Waiting >= int64(calls)
	}, eventually, often)
}

// processesAre forges the heartbeats of a name: all of them died some minutes ago.
func (s *scene) allDied(name string) {
	keys := lua.BeatKeys(s.prefix, "", name)
	beats, err := s.client.ZRangeWithScores(s.Context(), keys[0], 0, -1).Result()
	require.NoError(s, err)
	for _, b := range beats {
		b.Score = -float64(time.Now().Add(-time.Minute).UnixMicro())
		require.NoError(s, s.client.ZAdd(s.Context(), keys[0], b).Err())
	}
}

package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// A user with the rules of lua.ACLObserver can look at everything, and change nothing.
func TestObserver(t *testing.T) {
	server := redistest.Local(t)
	s := newScene(t, server)
	for _, kind := range []reserve.Limit{reserve.PerHour(60), reserve.Rolling(1, time.Hour), reserve.Quota(1, reserve.CalendarMonth), reserve.Concurrent(1)} {
		name := strings.ReplaceAll(kind.String(), "/", " ")
		l := s.used(name, "", kind)
		if kind.Kind() == reserve.KindSlots {
			r, err := l.Acquire(t.Context(), 1)
			require.NoError(t, err)
			t.Cleanup(r.Release)
			s.acquiring(l)
			continue
		}
		s.waiting(l, l, 2)
	}
	admin := server.Client(t)
	rules := append([]any{"acl", "setuser", "eye", "reset", "on", ">secret"}, words(lua.ACLObserver(s.prefix))...)
	require.NoError(t, admin.Do(t.Context(), rules...).Err())
	client := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "eye", Password: "secret"})
	defer func() { _ = client.Close() }()
	observer := fleet.New(client, s.prefix)
	defer observer.Close()

	names, err := observer.Names(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 4)
	for _, n := range names {
		look, err := observer.Look(t.Context(), n, 5)
		require.NoError(t, err)
		require.Len(t, look.Rows, 1)
		require.Empty(t, look.Rows[0].Error)
		require.Positive(t, look.Rows[0].Waiting)
		answer, err := observer.Explain(t.Context(), n, "")
		require.NoError(t, err)
		require.NotEqual(t, fleet.WhyAvailable, answer.Reason)
		_, err = observer.Explain(t.Context(), n, "no such id")
		require.NoError(t, err)
		limit, err := look.InForce()
		require.NoError(t, err)
		l, err := observer.Limiter(n, limit)
		require.NoError(t, err)
		require.ErrorIs(t, l.Pause(t.Context(), time.Hour, "no"), reserve.ErrDenied)
		require.Error(t, observer.SetBy(t.Context(), n, "", "me"))
		state, err := s.Look(t.Context(), n, 1)
		require.NoError(t, err)
		require.False(t, state.Rows[0].Paused)
	}
}

func words(text string) (words []any) {
	for _, w := range strings.Fields(text) {
		words = append(words, w)
	}
	return words
}

package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// Limits of a group are put together by their names, with the keys of those that have one.
func TestAll(t *testing.T) {
	here(t, `
limits:
  - {name: requests, limit: 5/s, group: llm}
  - {name: tenant, limit: 1/s, group: llm, key: "{tenant}"}
  - {name: model, limit: 1/s, group: llm, key: "{tenant}/{model}"}
  - {name: alone, limit: 1/s}
`)
	set := load(t, reserve.Config{})
	joint, err := set.All(map[string]string{"tenant": "acme", "model": "m"}, "requests", "model", "tenant")
	require.NoError(t, err)
	require.Equal(t, "requests + model/acme/m + tenant/acme", joint.String())
	require.Same(t, get(t, set, "requests"), joint.Limits()[0])
	joint, err = set.All(nil, "alone")
	require.NoError(t, err)
	require.Equal(t, "alone", joint.String())

	tenant := map[string]string{"tenant": "acme"}
	for _, c := range []struct {
		names  []string
		values map[string]string
		is     error
		want   string
	}{
		{[]string{"requests", "tokens"}, nil, limits.ErrUnknown, `limits: unknown limit "tokens": it is not in limits.yaml`},
		{[]string{"requests", "model"}, tenant, limits.ErrInvalid,
			`limits: invalid values for "model", where its key is "{tenant}/{model}": model is missing`},
		{[]string{"requests"}, tenant, limits.ErrInvalid, `limits: invalid values for ["requests"]: no key of these limits has the name "tenant"`},
		{nil, nil, limits.ErrInvalid, `limits: invalid limits []: reserve: all "": invalid limits: must be from 1 to 8, got 0`},
		{[]string{"requests", "requests"}, nil, limits.ErrInvalid, `"requests" is there twice`},
		{[]string{"requests", "alone"}, nil, limits.ErrInvalid, `must have the same Config.Group, which is not empty`},
	} {
		joint, err := set.All(c.values, c.names...)
		require.ErrorIs(t, err, c.is)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, joint)
	}
}

// Limits of every kind, and several at once, with every verb, as a file has them.
func TestKinds(t *testing.T) {
	for _, k := range bubble.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			file := strings.Builder{}
			file.WriteString("limits:\n")
			var names []string
			for i, limit := range k.Limits {
				names = append(names, fmt.Sprint("limit-", i))
				fmt.Fprintf(&file, "  - {name: %s, limit: %q, kind: %v, group: g, settles: true, key: \"{tenant}\"}\n", names[i], limit, limit.Kind())
			}
			here(t, file.String())
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				set, err := limits.Load(b.Client(), "limits.yaml", reserve.Config{})
				require.NoError(t, err)
				t.Cleanup(func() { _ = set.Close() })
				turns, err := set.All(map[string]string{"tenant": "acme"}, names...)
				require.NoError(t, err)
				for i, l := range turns.Limits() {
					assert.Equal(t, k.Limits[i], l.Limit())
				}
				verbs(t, b, k, turns)
			})
		})
	}
}

func verbs(t *testing.T, b *bubble.Bubble, k bubble.Kind, turns *reserve.Joint) {
	for range k.AtOnce - 1 {
		require.NoError(t, turns.Wait(t.Context()))
	}
	call, err := turns.Reserve(t.Context())
	require.NoError(t, err)
	require.NoError(t, call.Wait(t.Context()))
	allowed, err := turns.Allow(t.Context())
	require.NoError(t, err)
	assert.False(t, allowed)
	require.NoError(t, call.Settle(t.Context(), make([]int, len(k.Limits))...), "it has used nothing")
	if k.AtOnce > 1 { // what comes back of one that warms up is time
		allowed, err = turns.Allow(t.Context())
		require.NoError(t, err)
		assert.True(t, allowed)
	}

	require.NoError(t, turns.Pause(t.Context(), 2*time.Minute, "the API wants it"))
	states, err := turns.States(t.Context())
	require.NoError(t, err)
	for _, s := range states {
		assert.Equal(t, "the API wants it", s.PauseReason)
		assert.InDelta(t, 2*time.Minute, s.Wait, float64(2*time.Second))
	}
	require.NoError(t, turns.Resume(t.Context()))
	begun := time.Now()
	b.Hasten(turns, k)
	require.NoError(t, turns.Wait(t.Context()))
	assert.Less(t, time.Since(begun), 4*time.Second)
}

package limits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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

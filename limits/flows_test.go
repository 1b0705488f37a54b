package limits_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// of is the limiter of a name, with values.
func of(t *testing.T, set *limits.Set, name string, values ...string) *reserve.Limiter {
	t.Helper()
	by := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		by[values[i]] = values[i+1]
	}
	limiter, err := set.For(name, by)
	require.NoError(t, err)
	return limiter
}

// A file says whose calls have which share of a limit, alone, with a key, and of several limits.
func TestShares(t *testing.T) {
	here(t, `
limits:
  - {name: account, limit: 100/s, group: g, flow: "{tenant}", weights: {acme: 3, default: 2}}
  - {name: host, limit: 5/s, group: g, key: "{host}", flow: "{tenant}/{team}"}
`)
	set := load(t, reserve.Config{})
	account := of(t, set, "account", "tenant", "acme")
	require.Equal(t, "account", account.String())
	require.Equal(t, account, account.Flow("acme").Weight(3), "the flow is that of the file already")
	other := of(t, set, "account", "tenant", "hooli")
	require.Equal(t, other, other.Flow("hooli").Weight(2))
	host := of(t, set, "host", "host", "h", "tenant", "a/b", "team", "c")
	require.Equal(t, "host/h", host.String())
	require.Equal(t, host, host.Flow("a%2Fb/c").Weight(1))

	_, err := set.For("account", nil)
	require.ErrorIs(t, err, limits.ErrInvalid)
	require.ErrorContains(t, err, `values for "account", where its flow is "{tenant}": tenant is missing`)
	_, err = set.For("host", map[string]string{"host": "h", "tenant": strings.Repeat("t", 256), "team": "x"})
	require.ErrorContains(t, err, `where its key is "{host}" and its flow is "{tenant}/{team}": the flow must be at most 256 bytes, got 258`)

	_, err = set.All(map[string]string{"host": "h", "tenant": "a", "team": "c"}, "account", "host")
	require.ErrorContains(t, err, "must be for calls of one flow")

	write(t, `
limits:
  - {name: account, limit: 100/s, group: g, flow: "{tenant}", weights: {acme: 4, default: 2}}
`)
	changes, err := set.Reload()
	require.NoError(t, err)
	require.Equal(t, limits.Changes{Changed: []string{"account"}, Removed: []string{"host"}}, changes)
	require.Equal(t, account.Weight(4), of(t, set, "account", "tenant", "acme"), "its limiter is the same")
}

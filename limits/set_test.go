package limits_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

func TestGetAndFor(t *testing.T) {
	here(t, good)
	set := load(t, reserve.Config{})
	require.Equal(t, []string{"openai-requests", "openai-day", "shop", "estimates", "yes"}, set.Names())

	limiter := get(t, set, "openai-requests")
	require.Equal(t, "openai-requests", limiter.String())
	require.Equal(t, reserve.PerMinute(500).Burst(10), limiter.Limit())
	require.Same(t, limiter, get(t, set, "openai-requests"))
	same, err := set.For("openai-requests", map[string]string{})
	require.NoError(t, err)
	require.Same(t, limiter, same)

	shop, err := set.For("shop", map[string]string{"shop": "acme", "token": "t1"})
	require.NoError(t, err)
	require.Equal(t, "shop/acme/t1", shop.String())

	for _, c := range []struct {
		name   string
		values map[string]string
		is     error
		want   string
	}{
		{"Shop", nil, limits.ErrUnknown, `limits: unknown limit "Shop": it is not in limits.yaml`},
		{"shop", nil, limits.ErrInvalid, `limits: invalid values for "shop", where its key is "{shop}/{token}": shop is missing, token is missing`},
		{"shop", map[string]string{"shop": "", "tokem": "t", "a": "b"}, limits.ErrInvalid,
			`limits: invalid values for "shop", where its key is "{shop}/{token}": shop is empty, token is missing,` +
				` there is no name "a", there is no name "tokem"`},
		{"shop", map[string]string{"shop": strings.Repeat("s", 510), "token": "tt"}, limits.ErrInvalid,
			`limits: invalid values for "shop", where its key is "{shop}/{token}": the key must be at most 512 bytes, got 513`},
		{"yes", map[string]string{"shop": "acme"}, limits.ErrInvalid,
			`limits: invalid values for "yes", where it has no key: there is no name "shop"`},
	} {
		limiter, err := set.For(c.name, c.values)
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, c.is)
		require.Nil(t, limiter)
	}
	_, err = set.For("shop", map[string]string{"shop": strings.Repeat("s", 510), "token": "t"})
	require.NoError(t, err)
}

// A value cannot reach the key of another one.
func TestKeys(t *testing.T) {
	for _, c := range []struct{ template, a, b, want string }{
		{"{a}/{b}", "acme", "t1/x", "acme/t1/x"},
		{"{a}/{b}", "acme/t1", "x", "acme%2Ft1/x"},
		{"{a}/{b}", "acme%2Ft1", "%", "acme%252Ft1/%"},
		{"eu:{b}::{a}.", "y:", ":x\x00", "eu:%3Ax\x00::y:."},
		{"eu:{b}::{a}.", "y", "x:", "eu:x%3A::y."},
	} {
		got, err := limits.Fill(c.template, map[string]string{"a": c.a, "b": c.b})
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	alone, err := limits.Fill("host {a}", map[string]string{"a": "100%/x"})
	require.NoError(t, err)
	require.Equal(t, "host 100%/x", alone)
}

// After Close calls fail, and nothing is made any more.
func TestClose(t *testing.T) {
	here(t, good)
	set := load(t, reserve.Config{})
	limiter := get(t, set, "openai-requests")
	require.NoError(t, set.Close())
	require.NoError(t, set.Close())
	require.ErrorIs(t, limiter.Wait(t.Context()), reserve.ErrClosed)
	require.ErrorIs(t, get(t, set, "estimates").Wait(t.Context()), reserve.ErrClosed)
	_, err := set.Reload()
	require.EqualError(t, err, "limits: reload limits.yaml: limiter is closed")
	require.ErrorIs(t, err, reserve.ErrClosed)
	require.NoError(t, set.Watch(t.Context(), 1))
}

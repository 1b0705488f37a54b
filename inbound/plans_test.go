package inbound_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
)

// The headers of an answer are those of the plan of its tenant, as is what the tenant may do.
func TestHeadersOfPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		plans := map[string]reserve.Limit{"small": reserve.PerMinute(60).Burst(2), "large": reserve.PerMinute(600).Burst(20)}
		version := int64(1)
		limiter := b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerMinute(60).Burst(60), LimitOf: func(key string) (reserve.Limit, int64) {
			limit, ok := plans[key]
			if !ok {
				return limit, 0
			}
			return limit, version
		}})
		s := newSite(t, limiter, inbound.Config{Key: tenant, EveryAnswer: true, Headers: inbound.HeadersIETF})
		ask := func(tenant string) (code int, policy string) {
			w := s.get(context.Background(), tenant)
			return w.Code, w.Header().Get("RateLimit-Policy")
		}
		for range 2 {
			for tenant, want := range map[string]string{"small": `"default";q=2;w=2`, "large": `"default";q=20;w=2`, "other": `"default";q=60;w=60`} {
				code, policy := ask(tenant)
				require.Equal(t, 200, code)
				require.Equal(t, want, policy, tenant)
			}
		}
		code, policy := ask("small")
		require.Equal(t, 429, code)
		require.Equal(t, `"default";q=2;w=2`, policy)
		plans["small"], version = reserve.PerMinute(6000).Burst(100), 2
		code, policy = ask("small")
		require.Equal(t, 429, code, "its bucket is empty")
		require.Equal(t, `"default";q=100;w=1`, policy)
	})
}

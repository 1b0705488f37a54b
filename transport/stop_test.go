package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// during is a Base that answers 200, and does something before.
type during func()

func (d during) RoundTrip(r *http.Request) (*http.Response, error) {
	d()
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// The success of a probe ends the stop. A pause that an operator has begun meanwhile at another limit stays.
func TestProbeEndsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		client := b.Client()
		account := b.Limiter(client, reserve.Config{Name: "account", Group: "g", Limit: reserve.PerSecond(10)})
		customer := b.Limiter(client, reserve.Config{Name: "customer", Group: "g", Limit: reserve.PerSecond(10)})
		both, err := reserve.All(account, customer)
		require.NoError(t, err)
		calls := 0
		base := during(func() {
			calls++
			assert.NoError(t, customer.Pause(t.Context(), time.Hour, "an operator"))
		})
		paced := newTransport(t, transport.Config{API: bodies.OpenAI, Limiter: both, Base: base})
		require.NoError(t, account.Stop(t.Context(), time.Time{}, "credits"))
		for range 7 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test", nil)
			require.NoError(t, err)
			response, err := paced.RoundTrip(r)
			if err == nil {
				require.NoError(t, response.Body.Close())
				break
			}
			require.ErrorIs(t, err, reserve.ErrExhausted)
			time.Sleep(time.Minute)
		}
		require.Equal(t, 1, calls)
		states, err := both.States(t.Context())
		require.NoError(t, err)
		assert.False(t, states[0].Stopped)
		assert.Zero(t, states[0].Paused)
		assert.Equal(t, "an operator", states[1].PauseReason)
	})
}

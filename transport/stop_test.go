package transport_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
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
				synctest.Wait()
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

// A probe whose stream reports a failure, or that is led elsewhere, does not end the stop.
func TestProbeThatFails(t *testing.T) {
	for name, response := range map[string]http.Response{
		"in its stream": {StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(
			"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"none left\"}}}\n\n"))},
		"redirect": {StatusCode: 302, Header: http.Header{}, Body: http.NoBody},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				account := b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerSecond(10)})
				paced := newTransport(t, transport.Config{API: bodies.OpenAI, Limiter: account, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					of := response
					of.Request = r
					return &of, nil
				})})
				require.NoError(t, account.Stop(t.Context(), time.Time{}, "credits"))
				time.Sleep(6 * time.Minute)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test", nil)
				require.NoError(t, err)
				answer, err := paced.RoundTrip(r)
				require.NoError(t, err)
				resumed := false
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				for range 10 {
					state, err := account.State(t.Context())
					require.NoError(t, err)
					resumed = resumed || !state.Stopped
					time.Sleep(time.Second)
				}
				assert.False(t, resumed)
			})
		})
	}
}

// A refusal that arrives after the end of a stop, of a request that was sent before, does not stop the limit again.
func TestLateRefusal(t *testing.T) {
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprint("asked since ", asked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				here, there := b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerSecond(10)}), b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerSecond(10)})
				latency := 30 * time.Second
				paced := newTransport(t, transport.Config{API: bodies.OpenAI, Limiter: here, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					time.Sleep(latency)
					return &http.Response{StatusCode: 429, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":{"code":"insufficient_quota"}}`)), Request: r}, nil
				})})
				send := func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test", nil)
					require.NoError(t, err)
					response, err := paced.RoundTrip(r)
					require.NoError(t, err)
					_ = response.Body.Close()
				}
				time.AfterFunc(10*time.Second, func() {
					assert.NoError(t, there.Stop(t.Context(), time.Time{}, "credits"))
					assert.ErrorIs(t, here.Wait(t.Context()), reserve.ErrExhausted)
					time.Sleep(10 * time.Second)
					assert.NoError(t, there.Resume(t.Context()))
					if asked {
						assert.NoError(t, here.Wait(t.Context()))
					}
				})
				send()
				require.NoError(t, there.Wait(t.Context()))
				latency = time.Second
				send()
				require.ErrorIs(t, there.Wait(t.Context()), reserve.ErrExhausted)
			})
		})
	}
}

package llm_test

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
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// twoAccounts is the client of a chain of two accounts, of which the first one serves ten calls a minute.
func twoAccounts(t *testing.T, wire emulator.Wire) (client *http.Client, sets [2]*llm.Set, apis [2]*emulator.OpenAI) {
	t.Helper()
	b := bubble.New(t)
	for i, requests := range []int{10, 600} {
		var err error
		apis[i], err = emulator.NewOpenAI(emulator.OpenAIConfig{Requests: requests, Tokens: 1_000_000, Wire: wire})
		require.NoError(t, err)
		p := llm.OpenAI(fmt.Sprint("model", i), requests, 1_000_000)
		p.Burst = 30 * time.Second
		sets[i] = newSet(t, b, llm.Config{Account: fmt.Sprint("account", i), Preset: p})
	}
	base := baseFunc(func(r *http.Request) (*http.Response, error) {
		_, limited := r.Context().Deadline()
		assert.False(t, limited, "a call that has its turn")
		return emulator.RoundTripper(apis[strings.IndexByte("01", r.URL.Host[len(r.URL.Host)-1])]).RoundTrip(r)
	})
	client = llm.Chain(sets[0], sets[1]).Client(&http.Client{Transport: base}, 10*time.Second, func(pick int, r *http.Request) error {
		r.URL.Host = fmt.Sprint("api", pick)
		return llm.SetModel(r, fmt.Sprint("model", pick))
	})
	return client, sets, apis
}

// chat makes a call of the chain, and returns its status and its text.
func chat(t *testing.T, client *http.Client) (int, string) {
	t.Helper()
	response, err := client.Post("https://any/v1/chat/completions", "application/json", strings.NewReader(`{"model":"any","max_tokens":100,"stream":true}`))
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text)
}

// Requests that would wait for longer than that go to the next account, with its model. The time limits the wait alone:
// a stream takes longer.
func TestClientOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _, apis := twoAccounts(t, emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return emulator.Answer{Output: 100, PerSecond: 5} }})
		start := time.Now()
		done := make(chan string)
		for range 20 {
			go func() {
				status, text := chat(t, client)
				assert.Equal(t, http.StatusOK, status)
				assert.Contains(t, text, "[DONE]")
				done <- text
			}()
		}
		models := map[string]int{}
		for range 20 {
			text := <-done
			for _, model := range []string{"model0", "model1"} {
				if strings.Contains(text, model) {
					models[model]++
				}
			}
		}
		assert.Equal(t, 20, models["model0"]+models["model1"])
		assert.Equal(t, models["model0"], apis[0].Report().Admitted)
		assert.InDelta(t, 6, models["model0"], 1) // the burst, and what comes in 10 s
		assert.Zero(t, refusals(apis[0].Report())+refusals(apis[1].Report()))
		assert.Less(t, time.Since(start), 35*time.Second)
	})
}

// The call that learns that the account is used up is served by the next one, as are later calls. If that account is used
// up, too, calls get its refusal, and then ErrExhausted.
func TestClientOfAChainIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, sets, apis := twoAccounts(t, emulator.Wire{})
		apis[0].Stop("insufficient_quota")
		for range 5 {
			status, text := chat(t, client)
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, text, "model1")
		}
		assert.Equal(t, 1, refusals(apis[0].Report()))
		apis[1].Stop("insufficient_quota")
		status, text := chat(t, client)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Contains(t, text, "insufficient_quota")
		_, err := client.Post("https://any/v1/chat/completions", "application/json", strings.NewReader(`{}`))
		require.ErrorIs(t, err, llm.ErrExhausted)
		apis[0].Resume()
		require.NoError(t, sets[0].Resume(t.Context()))
		time.Sleep(time.Minute)
		status, text = chat(t, client)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, text, "model0")
	})
}

// A body without a model to set is an error, and is sent to nobody.
func TestSetModel(t *testing.T) {
	for _, body := range []string{"", "no JSON", "null"} {
		client := llm.Chain(newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: llm.OpenAI("m", 10, 1000)})).
			Client(nil, time.Second, func(_ int, r *http.Request) error { return llm.SetModel(r, "m") })
		_, err := client.Post("https://any/v1/chat/completions", "application/json", strings.NewReader(body))
		require.ErrorIs(t, err, llm.ErrInvalid, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://any", strings.NewReader(`{"n":9007199254740993,"model":"x"}`))
	require.NoError(t, err)
	require.NoError(t, llm.SetModel(r, "m"))
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.Equal(t, `{"model":"m","n":9007199254740993}`, string(text))
	assert.EqualValues(t, len(text), r.ContentLength)
}

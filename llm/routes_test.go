package llm_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
)

// Paths with IDs are one route. Redis keeps a bounded number of routes, also of programs that name each call.
func TestRoutesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Groq("m", 0, 10_000_000)})
		client := set.Client(answers(`{"usage":{"prompt_tokens":10,"completion_tokens":20}}`))
		routes := func() []string {
			time.Sleep(2 * time.Second)
			send(t, client, http.MethodPost, "/v1/chat/completions", `{}`) // what was learned goes to Redis with the next call
			routes, err := b.Client().HKeys(t.Context(), "fleetpace:{a}/m:learned").Result()
			require.NoError(t, err)
			return routes
		}
		for i := range 10 {
			for _, path := range []string{"/model/claude-%d/converse", "/v1beta/models/gemini-%d.5:generateContent", "/v1/threads/thread_%d/runs", "/v2/0d1f8e62-6b4c-4e6e-9d2b-%012d", "/v1/abcdefghijklmnopqrstuvwxyz-abcdefghijklm-of-no-%dumber"} {
				send(t, client, http.MethodPost, fmt.Sprintf(path, i), `{}`)
			}
		}
		assert.ElementsMatch(t, []string{"/model/*/converse", "/v1beta/models/*:generateContent", "/v1/threads/*/runs", "/v2/*", "/v1/*", "/v1/chat/completions"}, routes())
		var calls []any
		for i := range 1000 {
			calls = append(calls, fmt.Sprint("call ", i), "1 1 1 1")
		}
		require.NoError(t, b.Client().HSet(t.Context(), "fleetpace:{a}/m:learned", calls...).Err())
		assert.LessOrEqual(t, len(routes()), 100)
	})
}

// Requests that use no tokens wait for no turn of the limits: a backlog of tokens does not hold them up.
func TestRequestsWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Anthropic("m", llm.Start)})
		client := set.Client(answers(`{"input_tokens":10}`))
		require.NoError(t, set.Limits().Pause(t.Context(), time.Hour, "test"))
		start := time.Now()
		for _, c := range [][2]string{
			{"GET", "/v1/models"}, {"DELETE", "/v1/files/a"}, {"POST", "/v1/files"}, {"POST", "/v1/messages/count_tokens"}, {"POST", "/v1/messages/batches/b/cancel"},
			{"POST", "/v1beta/models/gemini:countTokens"}, {"POST", "/model/claude/count-tokens"}, {"POST", "/v1/responses/input_tokens"},
		} {
			send(t, client, c[0], c[1], `{}`)
			assert.Zero(t, time.Since(start), c)
		}
		require.NoError(t, set.Resume(t.Context()))
		states, err := set.Limits().States(t.Context())
		require.NoError(t, err)
		for _, s := range states[:3] {
			assert.EqualValues(t, 0, s.Waiting)
		}
	})
}

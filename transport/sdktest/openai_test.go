package sdktest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// api speaks as OpenAI does: what is left of a bucket in the fields of each
// answer, and refusals with their body and a time to wait.
type api struct {
	judge     *provider.Provider
	perMinute int

	mu      sync.Mutex
	full    time.Time // when its bucket of a minute's requests is full again
	prompts map[string]int
	refuse  int // that many more, whatever the judge says
}

func newAPI(t *testing.T, perSecond, burst int) (*api, string) {
	t.Helper()
	a := &api{
		judge:     provider.New(provider.TokenBucket(float64(perSecond), burst)),
		perMinute: perSecond * 60,
		prompts:   map[string]int{},
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ok, after := a.judge.Judge(1)
	var call struct {
		Model    string `json:"model"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || len(call.Messages) != 1 {
		http.Error(w, `{"error":{"message":"unreadable","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	now, each := time.Now(), time.Minute/time.Duration(a.perMinute)
	if a.full.Before(now) {
		a.full = now
	}
	w.Header().Set("Content-Type", "application/json")
	if a.refuse > 0 {
		a.refuse--
		ok, after = false, 300*time.Millisecond
	}
	if ok {
		a.full = a.full.Add(each)
	}
	left := a.full.Sub(now)
	w.Header().Set("X-Ratelimit-Limit-Requests", fmt.Sprint(a.perMinute))
	w.Header().Set("X-Ratelimit-Remaining-Requests", fmt.Sprint(a.perMinute-int((left+each-1)/each)))
	w.Header().Set("X-Ratelimit-Reset-Requests", left.Round(time.Millisecond).String())
	w.Header().Set("X-Ratelimit-Limit-Tokens", "150000000")
	w.Header().Set("X-Ratelimit-Remaining-Tokens", "149999990")
	w.Header().Set("X-Ratelimit-Reset-Tokens", "0s")
	if !ok {
		w.Header().Set("Retry-After", fmt.Sprint(int(after.Seconds())+1))
		w.Header().Set("Retry-After-Ms", fmt.Sprint(after.Milliseconds()+1))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}`)
		return
	}
	a.prompts[call.Messages[0].Content]++
	_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`,
		call.Model, "re: "+call.Messages[0].Content)
}

func newClient(t *testing.T, url string, limiter reserve.Turns, retries int) openai.Client {
	t.Helper()
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(base.CloseIdleConnections)
	paced, err := transport.New(transport.Config{
		Limiter: limiter, Base: base, Learn: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return openai.NewClient(
		option.WithBaseURL(url), option.WithAPIKey("none"), option.WithMaxRetries(retries),
		option.WithHTTPClient(&http.Client{Transport: paced}),
	)
}

func ask(t *testing.T, client openai.Client, prompt string) error {
	t.Helper()
	answer, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model:    "gpt-test",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	})
	if err != nil {
		return err
	}
	if got := answer.Choices[0].Message.Content; got != "re: "+prompt {
		return fmt.Errorf("prompt %q was answered %q", prompt, got)
	}
	return nil
}

// fleet makes the limiter of each of some processes.
func fleet(t *testing.T, processes int, limit reserve.Limit) (all []*reserve.Limiter) {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	for range processes {
		redis := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = redis.Close() })
		limiter, err := reserve.New(redis, reserve.Config{Name: "openai", Limit: limit})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close() })
		all = append(all, limiter)
	}
	return all
}

// TestThousandCalls: 30 callers of one process, or of two that share a limit, at five times
// the provider's limit learn it from its first answer, and of 1,000 calls through OpenAI's
// client none is refused.
func TestThousandCalls(t *testing.T) {
	for _, processes := range []int{1, 2} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			const calls, perSecond = 1000, 200
			server, url := newAPI(t, perSecond, 40) // the burst is 200 ms for the machine
			limiters := fleet(t, processes, reserve.PerSecond(5*perSecond))
			var clients []openai.Client
			for _, limiter := range limiters {
				clients = append(clients, newClient(t, url, limiter, 0))
			}
			require.NoError(t, ask(t, clients[0], "0"))
			state, err := limiters[processes-1].State(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, perSecond, state.Rate, 1e-3)

			var group errgroup.Group
			group.SetLimit(30) // however late they are, no more than the burst come together
			for i := range calls - 1 {
				group.Go(func() error { return ask(t, clients[i%processes], fmt.Sprint(i+1)) })
			}
			require.NoError(t, group.Wait())
			history, refused := server.judge.History(), 0
			for _, call := range history {
				if call.Refused {
					refused++
				}
			}
			t.Logf("%d calls of %d processes in %v, %d refused", len(history), processes, history[len(history)-1].At.Sub(history[0].At), refused)
			assert.Zero(t, refused)
			assert.Len(t, history, calls)
			assert.Len(t, server.prompts, calls)
		})
	}
}

// TestOwnRetries: OpenAI's client repeats what was refused by itself; each of its
// attempts takes a turn, and the first refusal pauses everybody.
func TestOwnRetries(t *testing.T) {
	server, url := newAPI(t, 1000, 1000)
	server.refuse = 1
	limiter := fleet(t, 1, reserve.PerSecond(1000))[0]
	client := newClient(t, url, limiter, 2)
	began := time.Now()
	require.NoError(t, ask(t, client, "hello"))
	assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	assert.Len(t, server.judge.History(), 2)
	assert.Equal(t, 1, server.prompts["hello"])
}

// TestRetriesAtAStop: OpenAI's client repeats a call that failed at a hard stop, as one without a connection. None of its
// attempts reaches the provider.
func TestRetriesAtAStop(t *testing.T) {
	server, url := newAPI(t, 1000, 1000)
	for retries := range 2 {
		limiter := fleet(t, 1, reserve.PerSecond(1000))[0]
		require.NoError(t, limiter.Stop(t.Context(), time.Time{}, "no credit"))
		attempts := 0
		client := newClient(t, url, limiter, retries)
		client.Options = append(client.Options, option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			attempts++
			return next(r)
		}))
		client = openai.NewClient(client.Options...)
		require.ErrorIs(t, ask(t, client, "hello"), reserve.ErrExhausted)
		assert.Equal(t, 1+retries, attempts)
	}
	assert.Empty(t, server.judge.History())
}

// TestRefusal: without retries the client sees the refusal as the provider wrote
// it.
func TestRefusal(t *testing.T) {
	server, url := newAPI(t, 1000, 1000)
	server.refuse = 1
	err := ask(t, newClient(t, url, fleet(t, 1, reserve.PerSecond(1000))[0], 0), "hello")
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	assert.Equal(t, "rate_limit_exceeded", refused.Code)
}

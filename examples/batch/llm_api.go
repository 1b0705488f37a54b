package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// llmAPI stands in for a language model, on the loopback interface. It has three limits, and judges
// each call when it arrives. It knows the cost in tokens by then; the caller learns it from the
// response.
type llmAPI struct {
	url    string
	server *http.Server
	served chan error

	// judges of the limits, in their order. Each judges every call, also if another one has refused
	// it. So the demo is stricter than a real API.
	judges [3]*provider.Provider

	mu      sync.Mutex
	refused int
}

// tokenUsage states in a response what the call cost.
type tokenUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

type completion struct {
	Text  string     `json:"text"`
	Usage tokenUsage `json:"usage"`
}

const (
	llmFastest  = 80 * time.Millisecond
	llmPerToken = 400 * time.Microsecond // of the completion
	warmingUp   = 50 * time.Millisecond  // how long each warm-up request holds its connection
)

// startLLM starts the API. It has the rates of the fleet, and larger bursts: by what the rate
// allows in 200 ms, at least nine; see startDemo. Its quota equals the fleet's, which has a margin
// at the edges of minutes instead.
func startLLM(limits llmLimits) (*llmAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo API: %w", err)
	}
	jitter := func(perSecond float64) int { return max(9, int(math.Ceil(perSecond*0.2))) }
	a := &llmAPI{
		url:    fmt.Sprintf("http://%s/completions", listener.Addr()),
		served: make(chan error, 1),
		judges: [3]*provider.Provider{
			provider.New(provider.TokenBucket(limits.Requests.Rate(), limits.Requests.MaxBurst()+jitter(limits.Requests.Rate()))),
			provider.New(provider.TokenBucket(limits.Tokens.Rate(), limits.Tokens.MaxBurst()+jitter(limits.Tokens.Rate()))),
			provider.New(provider.FixedWindow(limits.Quota.MaxBurst(), time.Minute)),
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /completions", a.complete)
	mux.HandleFunc("GET /completions", func(http.ResponseWriter, *http.Request) { time.Sleep(warmingUp) })
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { a.served <- a.server.Serve(listener) }()
	return a, nil
}

func (a *llmAPI) close() error {
	err := a.server.Close()
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (a *llmAPI) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAnswer))
	if err != nil {
		return // the client is gone
	}
	key := r.Header.Get("Idempotency-Key")
	var p prompt
	if err := json.Unmarshal(body, &p); err != nil || p.Prompt == "" || p.MaxTokens < 1 || key == "" {
		reply(w, http.StatusBadRequest, problem("want a prompt, max_tokens and an Idempotency-Key"))
		return
	}
	u := p.usage(key)
	if after := a.judge(u.TotalTokens); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		reply(w, http.StatusTooManyRequests, problem("rate limit exceeded"))
		return
	}
	time.Sleep(llmFastest + time.Duration(u.CompletionTokens)*llmPerToken)
	answer, _ := json.Marshal(completion{Text: "Once upon a time …", Usage: u}) // cannot fail
	reply(w, http.StatusOK, answer)
}

// judge returns 0 if the call is accepted. Otherwise it returns the wait after which it would be.
func (a *llmAPI) judge(tokens int) (after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, cost := range []int{1, tokens, 1} {
		if ok, wait := a.judges[i].Judge(cost); !ok {
			after = max(after, wait)
		}
	}
	if after > 0 {
		a.refused++
	}
	return after
}

// refusals returns how many calls the limits have refused.
func (a *llmAPI) refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// usage returns the cost of a call, from 40 to 80 % of the estimate. It depends on the key alone,
// so every run of the demo is the same.
func (p prompt) usage(key string) tokenUsage {
	luck, _ := fate(key, 1)
	u := tokenUsage{PromptTokens: (len(p.Prompt) + 3) / 4}
	total := int(float64(p.estimate()) * (0.4 + 0.4*luck))
	u.CompletionTokens = min(max(1, total-u.PromptTokens), p.MaxTokens)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

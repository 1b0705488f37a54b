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

// llmAPI is a language model on the loopback interface, without the model. It has three
// limits, and judges each call when it arrives: what the call costs in tokens it knows by
// then, and the caller learns it from the answer.
type llmAPI struct {
	url    string
	server *http.Server
	served chan error

	// judges of the limits, in their order. Each call is told to all of them, also one
	// that another has refused already: an API charges less.
	judges [3]*provider.Provider

	mu      sync.Mutex
	refused int
}

// tokenUsage is what an answer says of its cost.
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
	warmingUp   = 50 * time.Millisecond  // how long a connection is held that is made ahead
)

// startLLM starts the API. Its rates are those of the fleet, and its bursts are larger, by
// 200 ms of the rate, or nine calls: see startDemo. The quota is as large as the fleet's,
// which keeps a distance from the edges of minutes instead.
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
		return // the client went away
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

// judge returns 0, or after how long a call that is refused could come again.
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

// refusals is how many calls were refused, by whichever limit.
func (a *llmAPI) refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// usage decides by key alone what a call costs, so that every run of the demo is the same:
// from 40 to 80 % of the estimate.
func (p prompt) usage(key string) tokenUsage {
	luck, _ := fate(key, 1)
	u := tokenUsage{PromptTokens: (len(p.Prompt) + 3) / 4}
	total := int(float64(p.estimate()) * (0.4 + 0.4*luck))
	u.CompletionTokens = min(max(1, total-u.PromptTokens), p.MaxTokens)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

package example

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// LLM stands in for a language model, on the loopback interface. It has two limits, and judges
// each call when it arrives. It knows the cost in tokens by then; the caller learns it from the
// response.
type LLM struct {
	URL    string
	server *http.Server
	served chan error

	// Judges of the limits, in their order. Each judges every call, also if another one has refused
	// it. So the demo is stricter than a real API.
	Judges [2]*provider.Provider

	mu      sync.Mutex
	refused int
}

// TokenUsage states in a response what the call cost.
type TokenUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

type Completion struct {
	Text  string     `json:"text"`
	Usage TokenUsage `json:"usage"`
}

const (
	llmFastest  = 80 * time.Millisecond
	llmPerToken = 400 * time.Microsecond // of the completion
	warmingUp   = 50 * time.Millisecond  // how long each warm-up request holds its connection
)

// StartLLM starts the API. It has the rates of the fleet, and larger bursts: by what the rate
// allows in 200 ms, at least nine; see StartAddresses.
func StartLLM(requests, tokens reserve.Limit) (*LLM, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo API: %w", err)
	}
	jitter := func(perSecond float64) int { return max(9, int(math.Ceil(perSecond*0.2))) }
	a := &LLM{
		URL:    fmt.Sprintf("http://%s/completions", listener.Addr()),
		served: make(chan error, 1),
		Judges: [2]*provider.Provider{
			provider.New(provider.TokenBucket(requests.Rate(), requests.MaxBurst()+jitter(requests.Rate()))),
			provider.New(provider.TokenBucket(tokens.Rate(), tokens.MaxBurst()+jitter(tokens.Rate()))),
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /completions", a.complete)
	mux.HandleFunc("GET /completions", func(http.ResponseWriter, *http.Request) { time.Sleep(warmingUp) })
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { a.served <- a.server.Serve(listener) }()
	return a, nil
}

func (a *LLM) Close() error {
	err := a.server.Close()
	if served := <-a.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (a *LLM) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return // the client is gone
	}
	key := r.Header.Get("Idempotency-Key")
	var p Prompt
	if err := json.Unmarshal(body, &p); err != nil || p.Prompt == "" || p.MaxTokens < 1 || key == "" {
		reply(w, http.StatusBadRequest, problem("want a prompt, max_tokens and an Idempotency-Key"))
		return
	}
	u := p.Usage(key)
	if after := a.judge(u.TotalTokens); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		reply(w, http.StatusTooManyRequests, problem("rate limit exceeded"))
		return
	}
	time.Sleep(llmFastest + time.Duration(u.CompletionTokens)*llmPerToken)
	answer, _ := json.Marshal(Completion{Text: "Once upon a time …", Usage: u}) // cannot fail
	reply(w, http.StatusOK, answer)
}

// judge returns 0 if the call is accepted. Otherwise it returns the wait after which it would be.
func (a *LLM) judge(tokens int) (after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, cost := range []int{1, tokens} {
		if ok, wait := a.Judges[i].Judge(cost); !ok {
			after = max(after, wait)
		}
	}
	if after > 0 {
		a.refused++
	}
	return after
}

// Refusals returns how many calls the limits have refused.
func (a *LLM) Refusals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Usage returns the cost of a call, from 40 to 80 % of the estimate. It depends on the key alone,
// so every run of the demo is the same.
func (p Prompt) Usage(key string) TokenUsage {
	luck, _ := fate(key, 1)
	u := TokenUsage{PromptTokens: (len(p.Prompt) + 3) / 4}
	total := int(float64(p.Estimate()) * (0.4 + 0.4*luck))
	u.CompletionTokens = min(max(1, total-u.PromptTokens), p.MaxTokens)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// Prompt is the input of the language model.
type Prompt struct {
	ID        string `json:"id"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
}

// Estimate is the most that a call can cost, in tokens: no token is shorter than a byte, and
// max_tokens bounds the response. The response states the real cost.
func (p Prompt) Estimate() int { return len(p.Prompt) + p.MaxTokens }

// SamplePrompts returns prompts that are the same in every run.
func SamplePrompts(n int) []Record {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("queue ticket turn limit rate burst line worker call peak valve river crane harbour timetable " +
		"signal bridge lantern orchard compass ledger mill anchor kettle meadow clock engine gate ferry mountain")
	records := make([]Record, n)
	for i := range records {
		text := []string{"Tell a story with these words:"}
		for range 5 + random.IntN(10) {
			text = append(text, words[random.IntN(len(words))])
		}
		id := fmt.Sprintf("prompt-%04d", i+1)
		// Strings and numbers cannot fail.
		body, _ := json.Marshal(Prompt{ID: id, Prompt: strings.Join(text, " "), MaxTokens: 250 + 50*random.IntN(11)})
		records[i] = Record{ID: id, Body: body}
	}
	return records
}

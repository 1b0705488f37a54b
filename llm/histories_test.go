package llm_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// provider is an account of an emulator that may be stopped and scaled.
type provider interface {
	http.Handler
	Report() emulator.Report
	Resume()
	Scale(float64)
}

// wire watches the requests of a fleet where they leave it, and the bytes that come back.
type wire struct {
	mu       sync.Mutex
	sent     []time.Time
	refusals []refused
	bodies   sync.Map // what each response has brought, by the response's request
}

// refused is when a response said that calls are in vain, and until when.
type refused struct{ at, until time.Time }

func (w *wire) base(next http.RoundTripper) http.RoundTripper {
	return baseFunc(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		w.sent = append(w.sent, time.Now())
		w.mu.Unlock()
		response, err := next.RoundTrip(r)
		if err == nil {
			brought := &bytes.Buffer{}
			w.bodies.Store(r.Header.Get("Number"), brought)
			response.Body = tee{io.TeeReader(response.Body, brought), response.Body}
		}
		return response, err
	})
}

type tee struct {
	io.Reader
	io.Closer
}

// Random fleets meet random accounts. A fifth of the streams is cut, by the provider or the client. Estimates are three
// times too low or too high, others use the account, limits change, and credit ends. FLEETPACE_HISTORIES says how many
// large fleets are played, instead of seven small ones. FLEETPACE_FIRST_HISTORY is the seed of the first fleet.
func TestHistories(t *testing.T) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	first := number("FLEETPACE_FIRST_HISTORY", 1)
	calls, refusals := 0, 0
	for seed := range number("FLEETPACE_HISTORIES", 7) {
		t.Run(fmt.Sprint("seed ", first+seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := history(t, uint64(first+seed)) //nolint:gosec // a seed
				calls, refusals = calls+c, refusals+r
			})
		})
	}
	t.Logf("%d calls, %d refused", calls, refusals)
}

// history plays one history, and checks what must never happen. It returns how many calls of the fleet were admitted and
// refused.
func history(t *testing.T, seed uint64) (admitted, inVain int) {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // histories are repeatable
	chance := func(part float64) bool { return random.Float64() < part }
	name := [...]string{"Anthropic", "OpenAI", "OpenAI with refund", "Groq", "Gemini", "Bedrock", "Azure"}[seed%7]
	largest := 8000
	perMinute := []int{30_000, 60_000, 150_000, 400_000}[random.IntN(4)]
	if name == "Azure" {
		largest, perMinute = 600, []int{150_000, 300_000}[random.IntN(2)]
	}
	wrong, cache := chance(0.5), chance(0.5)
	answer := func(number int) (a emulator.Answer, most, reads int) {
		r := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // as above
		a = emulator.Answer{Input: 50 + r.IntN(largest), Output: 1 + r.IntN(largest/4), Wait: time.Duration(r.IntN(4000)) * time.Millisecond, PerSecond: 20 + 200*r.Float64()}
		if cache && r.IntN(2) == 0 {
			a.CacheRead = r.IntN(50_000)
		}
		if name != "Anthropic" && name != "Bedrock" {
			a.CacheRead = 0 // a part of the prompt
		}
		switch r.IntN(10) {
		case 0:
			a.Cut, a.Reset = max(0.001, r.Float64()), r.IntN(2) == 0
		case 1:
			reads = 1 + r.IntN(5*a.Output)
		}
		return a, a.Output + r.IntN(largest/4), reads
	}
	wires := emulator.Wire{Split: random.IntN(3) * 7, Gzip: true, Answer: func(c emulator.Call) emulator.Answer {
		if n, err := strconv.Atoi(c.Request.Header.Get("Foreign")); err == nil {
			return emulator.Answer{Input: n, Output: 1}
		}
		a, _, _ := answer(numberOf(c))
		return a
	}}
	agentsOf, seconds := 3, 25
	if os.Getenv("FLEETPACE_HISTORIES") != "" {
		agentsOf, seconds = 6, 40
	}
	f := &agents{processes: 1 + random.IntN(3), each: 2 + random.IntN(agentsOf), at: map[time.Duration]func(){}, lasts: time.Duration(seconds+random.IntN(seconds)) * time.Second, ends: time.Hour}
	f.config.Account = "a"
	var api provider
	var err error
	var stop func()
	switch name {
	case "Anthropic":
		var a *emulator.Anthropic
		a, err = emulator.NewAnthropic(emulator.AnthropicConfig{Wire: wires, Requests: 1000, Input: perMinute, Output: perMinute / 4})
		api, stop = a, func() { a.Stop(emulator.AnthropicStop(random.IntN(3))) }
		f.config.Preset, f.path = llm.Anthropic("m", llm.Build), "/v1/messages"
		f.config.Preset.Requests, f.config.Preset.Input, f.config.Preset.Output = 1000, perMinute, perMinute/4
	case "OpenAI", "OpenAI with refund", "Groq":
		var a *emulator.OpenAI
		a, err = emulator.NewOpenAI(emulator.OpenAIConfig{Wire: wires, Requests: 1000, Tokens: perMinute, Refund: name != "OpenAI"})
		api, stop = a, func() { a.Stop("credit_balance_exhausted") }
		f.config.Preset, f.path = llm.OpenAI("m", 1000, perMinute), "/v1/chat/completions"
		if name == "Groq" {
			f.config.Preset = llm.Groq("m", 1000, perMinute)
		}
	case "Gemini":
		var a *emulator.Gemini
		a, err = emulator.NewGemini(emulator.GeminiConfig{Wire: wires, Requests: 1000, Input: perMinute})
		api, stop = a, a.Stop
		f.config.Preset, f.path = llm.Gemini("m", 1000, perMinute), "/v1beta/models/m:streamGenerateContent"
	case "Bedrock":
		api, err = emulator.NewBedrock(emulator.BedrockConfig{Wire: wires, Tokens: perMinute})
		f.config.Preset, f.path = llm.Bedrock("m", perMinute), "/model/m/converse-stream"
	case "Azure":
		var a *emulator.Azure
		a, err = emulator.NewAzure(emulator.AzureConfig{Wire: wires, Tokens: perMinute, Skew: time.Duration(random.IntN(4)-2) * time.Second})
		api = a
		f.config.Preset, f.path = llm.Azure("m", perMinute), "/openai/deployments/m/chat/completions"
	}
	require.NoError(t, err)
	f.text = func(number int) string {
		a, most, _ := answer(number)
		return asks(4*(a.Input+a.CacheRead), fmt.Sprintf(`"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"generationConfig":{"maxOutputTokens":%d},"inferenceConfig":{"maxTokens":%d}`, most, most, most))
	}
	f.reads = func(number int) int64 {
		_, _, n := answer(number)
		return int64(n)
	}
	if wrong {
		f.config.Estimate = func(r *http.Request) llm.Estimate {
			n, _ := strconv.Atoi(r.Header.Get("Number"))
			a, most, _ := answer(n)
			return llm.Estimate{Input: max(1, a.Input*[...]int{1, 9}[n%2]/3), Output: max(1, a.Output*[...]int{1, 9}[n/2%2]/3), Max: most}
		}
	}
	var w wire
	f.base = w.base
	f.zipped = chance(0.3)
	f.got = func(number int, body []byte) {
		brought, _ := w.bodies.LoadAndDelete(strconv.Itoa(number))
		came := brought.(*bytes.Buffer).Bytes()
		if f.reads(number) > 0 {
			came = came[:min(len(came), len(body))]
		}
		assert.Equal(t, string(came), string(body))
	}
	start := time.Now()
	var stopped, resumed time.Time
	f.met = func(r *http.Response) {
		if r.StatusCode < http.StatusBadRequest {
			return
		}
		now := time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		inVain++
		until := now
		if s, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil {
			until = now.Add(time.Duration(s) * time.Second)
		}
		if r.Header.Get("X-Should-Retry") == "false" && !stopped.IsZero() && (resumed.IsZero() || now.Before(resumed)) {
			inVain--
			until = now.Add(5 * time.Minute)
		}
		w.refusals = append(w.refusals, refused{now, until})
	}
	f.failed = func(err error) time.Duration {
		assert.ErrorIs(t, err, llm.ErrExhausted)
		return 10 * time.Second
	}
	if chance(0.5) { // others
		each := perMinute / 100
		for at := time.Duration(0); at < f.lasts; at += time.Duration(2000+random.IntN(4000)) * time.Millisecond {
			f.at[at] = func() { f.foreign(t, api, each) }
		}
	}
	if chance(0.3) {
		f.at[time.Duration(5+random.IntN(seconds))*time.Second+time.Microsecond] = func() { f.foreign(t, api, perMinute*9/10) }
	}
	if chance(0.3) {
		at, part := time.Duration(10+random.IntN(seconds/2))*time.Second, 0.3+0.6*random.Float64()
		f.at[at] = func() { api.Scale(part) }
		f.at[at+time.Duration(random.IntN(60))*time.Second] = func() { api.Scale(1 / part) }
	}
	if stop != nil && chance(0.3) {
		at := time.Duration(5+random.IntN(seconds)) * time.Second
		byHand := chance(0.5)
		f.at[at] = func() { stopped = time.Now(); stop() }
		f.at[at+time.Duration(10+random.IntN(400))*time.Second+time.Millisecond] = func() {
			resumed = time.Now()
			api.Resume()
			if byHand {
				assert.NoError(t, f.sets[0].Resume(t.Context()))
			}
		}
	}
	f.run(t, bubble.New(t), api)
	took := time.Since(start)
	time.Sleep(2 * time.Minute) // an answer of Bedrock goes on
	assert.Less(t, took, f.lasts+20*time.Minute, "a call waits for too long")
	f.noLeak(t, api.Report)
	states, err := f.sets[0].Limits().States(t.Context())
	require.NoError(t, err)
	for _, s := range states {
		assert.Zero(t, s.Waiting)
	}
	for _, r := range w.refusals {
		until := r.until
		if !resumed.IsZero() && r.at.Before(resumed) && until.After(resumed) {
			until = resumed
		}
		for _, at := range w.sent {
			assert.False(t, at.After(r.at.Add(time.Second)) && at.Before(until), "sent %v after the start, in vain from %v to %v", at.Sub(start), r.at.Sub(start), until.Sub(start))
		}
	}
	report := api.Report()
	t.Logf("%s, %d a minute, %d agents, wrong %t, stopped %t: %d admitted, refused %v (%d of ours), %v", name, perMinute, f.processes*f.each, wrong, !stopped.IsZero(), report.Admitted, report.Refused, inVain, took)
	return report.Admitted, inVain
}

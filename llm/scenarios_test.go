package llm_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// agents are a fleet whose agents call by an SDK: it sends a request up to three times, as a response asks it to.
type agents struct {
	processes, each int
	config          llm.Config
	path, body      string
	text            func(number int) string   // the body of a request; nil: body
	bytes           func(number int) int      // the length of a request, by which it is estimated
	route           func(number int) string   // nil: the path
	reads           func(number int) int64    // how many bytes of a response it reads before it goes; nil: all
	signed          bool                      // by AWS
	alone           bool                      // without llm
	met             func(*http.Response)      // each response
	failed          func(error) time.Duration // each call without a response; it says when the agent calls again
	at              map[time.Duration]func()  // what happens meanwhile
	lasts           time.Duration
	ends            time.Duration // how long calls may take that were begun in time; 0: they end with the fleet
	base            func(http.RoundTripper) http.RoundTripper
	got             func(number int, body []byte) // what came of each body; nil: nobody looks
	zipped          bool                          // it accepts gzip
	rests           []time.Duration               // how long agents rest after a call, by process; nil: not at all
	apart           time.Duration                 // between the beginnings of two agents

	sets  []*llm.Set
	tries int // the most of a call
	waits []time.Duration
	lost  int // calls that were refused in the end
}

// run runs the fleet against an account.
func (f *agents) run(t *testing.T, b *bubble.Bubble, account http.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	number := 0
	for range f.processes {
		f.sets = append(f.sets, newSet(t, b, f.config))
	}
	began := time.Now()
	time.AfterFunc(f.lasts+f.ends, cancel)
	for after, do := range f.at {
		time.AfterFunc(after, do)
	}
	for process, set := range f.sets {
		client := emulator.RoundTripper(account)
		if f.base != nil {
			client = f.base(client)
		}
		if !f.alone {
			client = set.Client(&http.Client{Transport: client}).Transport
		}
		for agent := range f.each {
			all.Go(func() {
				time.Sleep(f.apart * time.Duration(process*f.each+agent))
				for ctx.Err() == nil && (f.ends == 0 || time.Since(began) < f.lasts) {
					mu.Lock()
					number++
					n := number
					mu.Unlock()
					start := time.Now()
					status, tries, err := f.call(ctx, client, n)
					mu.Lock()
					f.tries = max(f.tries, tries)
					if err == nil && status < http.StatusBadRequest {
						f.waits = append(f.waits, time.Since(start))
					} else if err == nil {
						f.lost++
					}
					mu.Unlock()
					if f.rests != nil {
						time.Sleep(f.rests[process])
					}
					if err != nil && ctx.Err() == nil {
						time.Sleep(f.failed(err))
					}
				}
			})
		}
	}
	all.Wait()
	synctest.Wait() // what happened meanwhile is seen
}

// call makes one call.
func (f *agents) call(ctx context.Context, client http.RoundTripper, number int) (status, tries int, err error) {
	callCtx := ctx
	if f.route != nil {
		callCtx = llm.Route(ctx, f.route(number))
	}
	body := f.body
	if f.text != nil {
		body = f.text(number)
	}
	for tries = 1; ; tries++ {
		r, err := http.NewRequestWithContext(callCtx, http.MethodPost, "https://api.example"+f.path, strings.NewReader(body))
		if err != nil {
			return 0, tries, err
		}
		if f.bytes != nil { // a body that is not read
			r.GetBody, r.ContentLength = nil, int64(f.bytes(number))
		}
		r.Header.Set("Number", strconv.Itoa(number))
		if f.zipped {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		if f.signed {
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=…")
			r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
		}
		response, err := client.RoundTrip(r)
		if err != nil {
			return 0, tries, err
		}
		if f.met != nil {
			f.met(response)
		}
		var body bytes.Buffer
		if f.reads != nil && f.reads(number) > 0 {
			_, _ = io.CopyN(&body, response.Body, f.reads(number))
		} else {
			_, _ = io.Copy(&body, response.Body)
		}
		_ = response.Body.Close()
		if f.got != nil {
			f.got(number, body.Bytes())
		}
		if response.StatusCode < 400 || tries == 3 || response.Header.Get("X-Should-Retry") == "false" {
			return response.StatusCode, tries, nil
		}
		wait := time.Second / 2 << tries
		if ms, err := strconv.Atoi(response.Header.Get("Retry-After-Ms")); err == nil {
			wait = time.Duration(ms) * time.Millisecond
		} else if s, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
			wait = time.Duration(s) * time.Second
		}
		time.Sleep(wait)
	}
}

// size returns the size of a fleet, and how long it runs: the whole of it takes long.
func size() (processes, each int, lasts time.Duration) {
	if os.Getenv("FLEETPACE_LONG") != "" {
		return 8, 64, 10 * time.Minute
	}
	return 2, 14, 100 * time.Second
}

// uses returns how much is used in a minute on average, in the last minute of a fleet.
func (f *agents) uses(report func() float64) *float64 { return f.usesIn(1, report) }

// usesIn is uses in the last minutes.
func (f *agents) usesIn(minutes int, report func() float64) *float64 {
	used := new(float64)
	f.at[f.lasts-time.Duration(minutes)*time.Minute-time.Second] = func() { *used = -report() / float64(minutes) }
	f.at[f.lasts-time.Second] = func() { *used += report() / float64(minutes) }
	return used
}

// rest fails a test whose calls fail.
func rest(t *testing.T) func(error) time.Duration {
	return func(err error) time.Duration {
		t.Error(err)
		return time.Minute
	}
}

// row compares a figure with its bound, and with the row of docs/models.md.
func row(t *testing.T, name, ideal string, required, got float64) {
	t.Helper()
	t.Logf("| %s | %s | %.2f | %.3f |", name, ideal, required, got)
	page, err := os.ReadFile("../docs/models.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), fmt.Sprintf("\n| %s | %s | %.2f | ", name, ideal, required))
	require.True(t, found, "docs/models.md lacks the row")
	var said float64
	_, err = fmt.Sscanf(after, "%f", &said)
	require.NoError(t, err)
	assert.InDelta(t, said, min(got, 1), 0.025, "docs/models.md")
	assert.GreaterOrEqual(t, got, required)
}

func refusals(r emulator.Report) (n int) {
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// noLeak fails if a call or a slot is left.
func (f *agents) noLeak(t *testing.T, report func() emulator.Report) {
	t.Helper()
	time.Sleep(20 * time.Second) // an answer of Bedrock goes on
	assert.Zero(t, report().Open)
	assert.Zero(t, f.slots(t))
}

// slots returns how many slots calls hold.
func (f *agents) slots(t *testing.T) int {
	t.Helper()
	states, err := f.sets[0].Limits().States(t.Context())
	if !assert.NoError(t, err) {
		return 0
	}
	return len(states[len(states)-1].Holders)
}

func always(n int) func(int) int { return func(int) int { return n } }

// anthropicAPI is an account with a Build tier of Fable.
func anthropicAPI(t *testing.T, answer func(emulator.Call) emulator.Answer) *emulator.Anthropic {
	t.Helper()
	api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: 1_500_000, Output: 300_000, Wire: emulator.Wire{Every: 2 * time.Second, Answer: answer}})
	require.NoError(t, err)
	return api
}

func numberOf(c emulator.Call) int {
	n, _ := strconv.Atoi(c.Request.Header.Get("Number"))
	return n
}

func steady(emulator.Call) emulator.Answer {
	return emulator.Answer{Input: 20_000, CacheRead: 60_000, Output: 800, Wait: 4 * time.Second, PerSecond: 100}
}

func short3000(emulator.Call) emulator.Answer {
	return emulator.Answer{Input: 3000, Output: 400, Wait: time.Second, PerSecond: 100}
}

// fableAgents are a fleet of Anthropic's streams.
func fableAgents(t *testing.T, bytes int) *agents {
	t.Helper()
	f := &agents{config: llm.Config{Account: "a", Preset: llm.Anthropic("claude-fable-5", llm.Build)}, path: "/v1/messages", body: asks(bytes, `"stream":true,"max_tokens":8192`), failed: rest(t), at: map[time.Duration]func(){}}
	f.processes, f.each, f.lasts = size()
	return f
}

// asks returns a request with so many bytes of text.
func asks(bytes int, wishes string) string {
	return `{"model":"m",` + wishes + `,"messages":[{"content":"` + strings.Repeat("word ", bytes/5) + `"}]}`
}

// Scenario 1: 512 agents in 8 processes share 75 calls a minute.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := anthropicAPI(t, steady)
		f := fableAgents(t, 66_000)
		used := f.uses(func() float64 { return api.Report().Limit("input-tokens").Used })
		f.run(t, bubble.New(t), api)
		report := api.Report()
		assert.Zero(t, refusals(report))
		assert.LessOrEqual(t, report.Limit("input-tokens").Used, 1_500_000*(f.lasts.Minutes()+1))
		f.noLeak(t, api.Report)
		row(t, "1. Anthropic, streams with cached prompts", "75 calls/min", 0.97, *used/1_500_000)
	})
}

// Scenario 2: estimates of one route are three times too low, and those of another three times too high.
func TestWrongEstimates(t *testing.T) {
	for name, learned := range map[string]bool{"2. first guesses 3 times too low or too high": true, "2. estimates 3 times too low or too high for ever": false} {
		t.Run(fmt.Sprint("learned ", learned), func(t *testing.T) {
			if !learned {
				redistest.GateOnly(t)
			}
			synctest.Test(t, func(t *testing.T) {
				api := anthropicAPI(t, steady)
				f := fableAgents(t, 0)
				f.lasts += 20 * time.Second // a call costs up to a quarter of the burst
				f.route = func(n int) string { return fmt.Sprint(n % 2) }
				f.bytes = func(n int) int { // 20,000 / 3 and 20,000 * 3 tokens by the first guess: 1.2 for four bytes
					return [...]int{200_000, 22_222}[n%2]
				}
				if !learned {
					f.config.Estimate = func(r *http.Request) llm.Estimate {
						return llm.Estimate{Input: int(r.ContentLength * 3 / 10), Output: 800, Max: 8192}
					}
				}
				used := f.uses(func() float64 { return api.Report().Limit("input-tokens").Used })
				f.run(t, bubble.New(t), api)
				assert.Zero(t, refusals(api.Report()), "0.003 are allowed, which is less than one")
				f.noLeak(t, api.Report)
				row(t, name, "75 calls/min", 0.97, *used/1_500_000)
			})
		})
	}
}

// Scenario 3: a fifth of the streams is cut, half of them by the client. The fleet knows nothing at first, so the first
// minute is slow.
func TestCutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // histories are repeatable
		var cuts [4096]float64
		for i := range cuts {
			cuts[i] = random.Float64()
		}
		api := anthropicAPI(t, func(c emulator.Call) emulator.Answer {
			a := emulator.Answer{Input: 1000, Output: 4000, Wait: 3 * time.Second, PerSecond: 80}
			if n := numberOf(c); n%10 == 1 {
				a.Cut, a.Reset = max(0.001, cuts[n]), n%20 == 1
			}
			return a
		})
		f := fableAgents(t, 4000)
		f.each, f.lasts = max(f.each, 48), f.lasts+2*time.Minute
		f.reads = func(n int) int64 {
			if n%10 == 2 {
				return max(1, int64(30_000*cuts[n]))
			}
			return 0
		}
		used := f.uses(func() float64 { return api.Report().Limit("output-tokens").Used })
		for i := range 17 {
			f.at[time.Duration(10*(i+1))*time.Second+time.Second/3] = func() { assert.InDelta(t, api.Report().Open, f.slots(t), 1) }
		}
		f.run(t, bubble.New(t), api)
		report := api.Report()
		assert.Zero(t, refusals(report))
		assert.LessOrEqual(t, report.MostOpen, 90)
		for i, c := range report.Calls[1:] {
			assert.Less(t, c.At.Sub(report.Calls[i].At), 10*time.Second, "a standstill")
		}
		f.noLeak(t, api.Report)
		row(t, "3. A fifth of the streams is cut", "83 calls/min", 0.96, *used/300_000)
	})
}

// Scenario 4: OpenAI counts max_tokens. Where it gives back what was not used, its headers say so.
func TestRefund(t *testing.T) {
	for name, c := range map[string]struct {
		preset       llm.Preset
		refund       bool
		most, tokens int
		counts       float64
	}{
		"4. OpenAI, without refund": {llm.OpenAI("gpt", 5000, 500_000), false, 4096, 500_000, 4096},
		"4. OpenAI, with refund":    {llm.OpenAI("gpt", 5000, 500_000), true, 4096, 500_000, 3400},
		"Groq":                      {llm.Groq("llama", 5000, 200_000), true, 1000, 200_000, 3400},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 5000, Tokens: c.tokens, Refund: c.refund, Wire: emulator.Wire{Answer: short3000}})
				require.NoError(t, err)
				f := fableAgents(t, 0)
				f.config.Preset, f.path = c.preset, "/v1/chat/completions"
				f.body = asks(9000, fmt.Sprintf(`"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d`, c.most))
				minutes := 1
				if c.refund { // the limit rises once a minute
					minutes = 2
					f.lasts += 2 * time.Minute
				}
				used := f.usesIn(minutes, func() float64 { return float64(api.Report().Admitted) })
				f.run(t, bubble.New(t), api)
				assert.Zero(t, refusals(api.Report()))
				f.noLeak(t, api.Report)
				possible := float64(c.tokens) / c.counts
				row(t, name, fmt.Sprintf("%.0f calls/min", possible), 0.97, *used/possible)
			})
		})
	}
}

// Scenario 5: the account has no credit from the 20th second on. All agents know it within two seconds, and no SDK
// repeats a call. One call in five minutes looks whether that has changed. After a Resume, the fleet goes on at once.
func TestHardCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 5000, Tokens: 500_000, Wire: emulator.Wire{Answer: short3000}})
		require.NoError(t, err)
		f := fableAgents(t, 0)
		f.config.Preset, f.path = llm.OpenAI("gpt", 5000, 500_000), "/v1/chat/completions"
		f.body = asks(9000, `"stream":true,"max_tokens":4096`)
		const stops, resumes = 20 * time.Second, 33 * time.Minute
		f.lasts = resumes + time.Minute + time.Second
		start, known, open := time.Now(), 0, 0
		var mu sync.Mutex
		f.failed = func(err error) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			assert.ErrorIs(t, err, llm.ErrExhausted)
			if time.Since(start) < stops+2*time.Second {
				known++
			}
			return time.Until(start.Add((time.Since(start)/(10*time.Second) + 1) * 10 * time.Second))
		}
		f.at[stops] = func() { api.Stop("credit_balance_exhausted") }
		f.at[stops+2*time.Second] = func() { open = api.Report().Open }
		f.at[resumes] = func() {
			api.Resume()
			assert.NoError(t, f.sets[0].Resume(t.Context()))
		}
		before := 0
		f.at[resumes+10*time.Second] = func() { before = api.Report().Admitted }
		f.at[resumes+40*time.Second] = func() { before = api.Report().Admitted - before }
		f.run(t, bubble.New(t), api)
		report := api.Report()
		probes := 0
		for _, c := range report.Calls {
			if c.Refusal != "" && c.At.After(start.Add(stops+3*time.Second)) {
				probes++
			}
		}
		t.Logf("%d know within 2 s, %d have answers; %d calls after the first refusal, %d of them probes", known, open, report.AfterStop, probes)
		assert.Equal(t, f.processes*f.each, known+open)
		assert.LessOrEqual(t, report.AfterStop-probes, f.processes)
		assert.LessOrEqual(t, probes, 7)
		assert.Equal(t, 1, f.tries)
		f.noLeak(t, api.Report)
		row(t, "5. No credit for half an hour, from 10 s after its end", "122 calls/min", 0.95, float64(before)*2*4096/500_000)
	})
}

// Scenario 6: Bedrock reserves max_tokens. Without them, 31 calls are open at most, whatever the rate, and a line of the
// log says so once. Half of the responses are streams. The others are documents, of another route.
func TestBedrock(t *testing.T) {
	for most, name := range map[int]string{1000: "6. Bedrock, streams and documents", 0: ""} {
		t.Run(fmt.Sprint("max_tokens ", most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const possible = 200_000. / 1500
				tokens := map[int]int{1000: 200_000, 0: 2_000_000}[most]
				api, err := emulator.NewBedrock(emulator.BedrockConfig{Tokens: tokens, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
					return emulator.Answer{Input: 500, Output: 200, Wait: time.Second, PerSecond: 100}
				}}})
				require.NoError(t, err)
				f := fableAgents(t, 0)
				var log bytes.Buffer
				f.config.Preset, f.config.Logger, f.path = llm.Bedrock("claude", tokens), slog.New(slog.NewTextHandler(&log, nil)), "/model/claude/converse-stream"
				f.body = `{"a":"` + strings.Repeat("word ", 400) + `"`
				if most > 0 {
					f.body += fmt.Sprintf(`,"inferenceConfig":{"maxTokens":%d}`, most)
				}
				f.body += "}"
				used := f.uses(func() float64 { return float64(api.Report().Admitted) })
				f.route = func(n int) string { return fmt.Sprint(n % 2) }
				f.run(t, bubble.New(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n, _ := strconv.Atoi(r.Header.Get("Number")); n%2 == 0 {
						r = r.Clone(r.Context())
						r.URL.Path = strings.TrimSuffix(r.URL.Path, "-stream")
					}
					api.ServeHTTP(w, r)
				}))
				assert.Zero(t, refusals(api.Report()))
				assert.LessOrEqual(t, api.Report().MostOpen, 31)
				f.noLeak(t, api.Report)
				lines := strings.Count(log.String(), "max_tokens")
				if most == 0 {
					assert.Equal(t, f.processes, lines)
					return
				}
				assert.Zero(t, lines)
				row(t, name, fmt.Sprintf("%.0f calls/min", possible), 0.97, *used/possible)
			})
		})
	}
}

// Scenario 6: with a queue of 20 minutes, no request arrives whose signature has ended.
func TestSignedInALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewBedrock(emulator.BedrockConfig{Tokens: 9000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Input: 500, Output: 200}
		}}})
		require.NoError(t, err)
		f := fableAgents(t, 0)
		f.config.Preset, f.path, f.body, f.signed = llm.Bedrock("claude", 9000), "/model/claude/converse", `{"inferenceConfig":{"maxTokens":1000}}`, true
		f.each, f.lasts = 60, 10*time.Minute
		failed := 0
		var mu sync.Mutex
		f.failed = func(err error) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			failed++
			assert.ErrorContains(t, err, "signature")
			return time.Second
		}
		f.run(t, bubble.New(t), api)
		t.Logf("%d calls, %d have waited for too long", api.Report().Admitted, failed)
		assert.Positive(t, failed)
		assert.Zero(t, refusals(api.Report()))
		assert.GreaterOrEqual(t, api.Report().Admitted, 58)
	})
}

// Scenario 7: Azure has five eighths of its limit for a minute. Requests bind before and after that, tokens meanwhile.
func TestAzureLowersItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens, estimate = 60_000, 60
		api, err := emulator.NewAzure(emulator.AzureConfig{Tokens: tokens, Requests: 360, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Estimate: estimate, Input: 50, Output: 50, Wait: time.Second}
		}}})
		require.NoError(t, err)
		time.Sleep(30 * time.Second) // the limit changes with the clock's minute
		f := fableAgents(t, 0)
		f.config.Preset, f.path = llm.Azure("gpt", tokens), "/openai/deployments/gpt/chat/completions"
		f.body = `{"max_tokens":100,"a":"` + strings.Repeat("a", 4*estimate-26) + `"}`
		start := time.Now()
		at := func(after time.Duration, of *float64, sign float64) {
			f.at[after] = func() { *of += sign * float64(api.Report().Admitted) }
		}
		var before, low, again float64
		at(10*time.Second-1, &before, -1)
		at(30*time.Second-2, &before, 1)
		f.at[30*time.Second-1] = func() { api.SetTokens(tokens * 5 / 8) }
		at(40*time.Second, &low, -1)
		at(88*time.Second, &low, 1)
		f.at[90*time.Second-1] = func() { api.SetTokens(tokens) }
		at(150*time.Second, &again, -1)
		at(170*time.Second, &again, 1)
		f.lasts = 171 * time.Second
		f.run(t, bubble.New(t), api)
		for _, c := range api.Report().Calls {
			if c.Refusal != "" {
				assert.Less(t, c.At.Sub(start), 32*time.Second)
			}
		}
		f.noLeak(t, api.Report)
		row(t, "7. Azure, by its requests", "360 calls/min", 0.98, before/120)
		row(t, "7. Azure, by its tokens, at 5/8 of its limit", "234 calls/min", 0.98, low/(tokens*5/8./160*48/60))
		row(t, "7. Azure, a minute after that", "360 calls/min", 0.98, again/120)
	})
}

// Tokens of Azure bind from the beginning, by a clock that is two seconds ahead.
func TestAzureByTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens, possible = 240_000, 240_000 / (3090./4 + 400)
		api, err := emulator.NewAzure(emulator.AzureConfig{Tokens: tokens, Skew: 2 * time.Second, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Estimate: 3090 / 4, Input: 700, Output: 300, Wait: time.Second, PerSecond: 100}
		}}})
		require.NoError(t, err)
		f := fableAgents(t, 0)
		f.config.Preset, f.path, f.body = llm.Azure("gpt", tokens), "/openai/deployments/gpt/chat/completions", asks(3000, `"max_tokens":400`)
		f.lasts = 75 * time.Second
		used := f.uses(func() float64 { return float64(api.Report().Admitted) })
		f.run(t, bubble.New(t), api)
		assert.Zero(t, refusals(api.Report()))
		f.noLeak(t, api.Report)
		row(t, "Azure, by its tokens", fmt.Sprintf("%.0f calls/min", possible), 0.98, *used/possible)
	})
}

// Scenario 8: a refusal of Gemini states its wait of 11 s in its body alone. No process calls before that.
func TestGeminiWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const input, begins = 200_000, 20 * time.Second
		api, err := emulator.NewGemini(emulator.GeminiConfig{Requests: 1000, Input: input, Wire: emulator.Wire{Answer: short3000}})
		require.NoError(t, err)
		start := time.Now()
		var refused atomic.Int64
		f := fableAgents(t, 0)
		f.config.Preset, f.path, f.body = llm.Gemini("m", 1000, input), "/v1beta/models/m:streamGenerateContent", asks(9000, `"generationConfig":{"maxOutputTokens":1000}`)
		used := f.uses(func() float64 { return float64(api.Report().Admitted) })
		f.run(t, bubble.New(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if in := time.Since(start); in < begins || in > begins+11*time.Second {
				api.ServeHTTP(w, r)
				return
			}
			refused.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"11s"}]}}`)
		}))
		assert.LessOrEqual(t, int(refused.Load()), f.processes)
		assert.Positive(t, refused.Load())
		assert.Zero(t, refusals(api.Report()))
		f.noLeak(t, api.Report)
		row(t, "8. Gemini, after a refusal", "67 calls/min", 0.97, *used/(input/3000.))
	})
}

// foreign is a call of somebody else at the same account, of so many tokens.
func (f *agents) foreign(t *testing.T, account http.Handler, tokens int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example"+f.path, strings.NewReader(f.body))
	require.NoError(t, err)
	r.Header.Set("Foreign", strconv.Itoa(tokens))
	response, err := emulator.RoundTripper(account).RoundTrip(r)
	if assert.NoError(t, err) {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// shared is what an account that somebody else uses, too, answers.
func shared(c emulator.Call) emulator.Answer {
	if n, err := strconv.Atoi(c.Request.Header.Get("Foreign")); err == nil {
		return emulator.Answer{Estimate: 1, Input: n, Output: 1}
	}
	return steady(c)
}

// Scenario 11: for three minutes, six of ten calls meet an overloaded provider, a third of them within a stream. The fleet
// falls to a quarter within 10 s, and is back a minute after the end. Agents without llm send many more calls in vain.
func TestOverload(t *testing.T) {
	const ends = 190 * time.Second
	fleet := func(t *testing.T, input int, alone bool, begins, lasts time.Duration) (tens []int, vain float64) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			api := anthropicAPI(t, func(c emulator.Call) emulator.Answer {
				a := emulator.Answer{Input: input, Output: 100, Wait: time.Second}
				n, now := numberOf(c)*7%10, time.Since(start)
				switch {
				case now < begins || now >= ends || n >= 6:
				case n < 4:
					a.Refuse, a.Status = "overloaded_error", 529
				default:
					a.Cut, a.Error = 0.1, "overloaded_error"
				}
				return a
			})
			f := fableAgents(t, 0)
			f.bytes, f.lasts, f.alone = always(4*input), lasts, alone
			f.run(t, bubble.New(t), api)
			tens = make([]int, int(lasts/(10*time.Second))+1)
			for _, c := range api.Report().Calls {
				after := c.At.Sub(start)
				tens[after/(10*time.Second)]++
				if c.Refusal != "" {
					vain += 1 / (min(lasts, ends) - begins).Minutes()
				}
			}
			f.noLeak(t, api.Report)
		})
		return tens, vain
	}
	for _, c := range []struct{ perMinute, falls, returns int }{{300, 1, 1}, {75, 6, 3}} { // over how many tens of seconds a mean is
		_, naive := fleet(t, 1_500_000/c.perMinute, true, 0, 10*time.Second)
		tens, vain := fleet(t, 1_500_000/c.perMinute, false, 10*time.Second, ends+90*time.Second)
		usual := float64(c.perMinute) / 6
		t.Logf("%v calls each 10 s; %.1f refused each minute, and %.0f without llm", tens, vain, naive)
		assert.LessOrEqual(t, tens[2], int(usual/4))
		assert.LessOrEqual(t, slices.Max(means(tens[2:19], c.falls)), usual/4)
		assert.LessOrEqual(t, vain, naive/10)
		assert.LessOrEqual(t, vain, 0.4*float64(c.perMinute)/3, "at the usual rate it would be three times as many")
		least := slices.Min(means(tens[25:28], c.returns))
		row(t, fmt.Sprintf("11. A minute after an overload of three minutes, prompts of %d,000 tokens", 1500/c.perMinute), fmt.Sprintf("%d calls/min", c.perMinute), 0.9, least/usual)
	}
}

// means returns the means of each so many numbers that follow each other.
func means(of []int, n int) (all []float64) {
	for i := range len(of) - n + 1 {
		sum := 0
		for _, x := range of[i : i+n] {
			sum += x
		}
		all = append(all, float64(sum)/float64(n))
	}
	return all
}

// Scenario 12: somebody else uses 30 % of the account, and no response says so.
func TestForeignLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := anthropicAPI(t, shared)
		f := fableAgents(t, 66_000)
		f.lasts += time.Minute
		f.foreign(t, api, 1_200_000)
		for at := time.Duration(0); at < f.lasts; at += 8 * time.Second / 3 {
			f.at[at] = func() { f.foreign(t, api, 20_000) }
		}
		start := time.Now()
		f.run(t, bubble.New(t), api)
		late, calls := 0, 0
		for _, c := range api.Report().Calls {
			if c.At.Sub(start) > time.Minute {
				calls++
				if c.Refusal != "" {
					late++
				}
			}
		}
		t.Logf("%d of %d refused after the first minute; %v", late, calls, api.Report().Refused)
		assert.LessOrEqual(t, float64(late)/float64(calls), 0.005)
		f.noLeak(t, api.Report)
		row(t, "12. Others use 30 %", "53 calls/min", 0.97, (float64(calls-late)/(f.lasts-time.Minute).Minutes()-22.5)/52.5)
	})
}

// Scenario 12: 512 agents meet a refusal with Retry-After. Nothing is sent until then, and then calls follow at the rate.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := anthropicAPI(t, shared)
		f := fableAgents(t, 66_000)
		f.each = 512 / f.processes
		start, begins, ends := time.Now(), time.Duration(0), time.Duration(0)
		var mu sync.Mutex
		f.met = func(r *http.Response) {
			mu.Lock()
			defer mu.Unlock()
			if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil {
				begins, ends = time.Since(start), time.Since(start)+time.Duration(after)*time.Second
			}
		}
		f.at[20*time.Second] = func() { f.foreign(t, api, 1_900_000) }
		f.lasts = time.Minute
		f.run(t, bubble.New(t), api)
		then, first := 0, time.Duration(0)
		for _, c := range api.Report().Calls {
			at := c.At.Sub(start)
			if c.Refusal != "" { // by others that were on their way
				first = min(at, cmp.Or(first, at))
				assert.Less(t, at-first, 10*time.Millisecond)
			}
			assert.False(t, at > begins+time.Second && at < ends-time.Second/2, at)
			if at >= ends && at < ends+10*time.Second {
				then++
			}
		}
		t.Logf("refused from %v to %v; %d calls in the 10 s after that", begins, ends, then)
		assert.Greater(t, ends-begins, 15*time.Second)
		assert.LessOrEqual(t, then, 14)
		assert.LessOrEqual(t, f.tries, 2)
		f.noLeak(t, api.Report)
	})
}

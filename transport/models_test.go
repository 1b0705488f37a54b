package transport_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// scene is a fleet that calls a model: 4 processes with some agents each, which make one call after the other.
type scene struct {
	agents                  int
	requests, input, output int // per minute; output 0: one limit of tokens
	burst                   time.Duration
	estimate                func(emulator.Answer, *rand.Rand) (input, output int)
	answer                  func(*rand.Rand) emulator.Answer
	failed                  func(error) // each call that got no response; nil: the agent ends
	tokens                  func(*http.Response, bodies.Usage) []int
	api                     bodies.API
	path, body              string
	lasts                   time.Duration
	met                     func(*http.Response) // each response; nil: nobody looks
	limits                  *reserve.Joint       // of one process, once the fleet runs
}

const sceneProcesses = 4

// play runs the fleet against an account.
func (s *scene) play(t *testing.T, account http.Handler, answers *sync.Map) {
	t.Helper()
	b := bubble.New(t)
	ctx, cancel := context.WithCancel(t.Context()) // a deadline would make calls fail that would miss it
	defer cancel()
	time.AfterFunc(s.lasts, cancel)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // histories are repeatable
	var mu sync.Mutex
	var agents sync.WaitGroup
	number := 0
	for range sceneProcesses {
		client := b.Client()
		limit := func(name string, perMinute int) *reserve.Limiter {
			burst := max(1, int(float64(perMinute)*s.burst.Minutes()))
			return b.Limiter(client, reserve.Config{Name: name, Group: "llm", Limit: reserve.PerMinute(float64(perMinute)).Burst(burst), Settles: name != "requests"})
		}
		limits, windows := []*reserve.Limiter{limit("requests", s.requests), limit("input", s.input)}, []string{"requests", "tokens"}
		if s.output > 0 {
			limits, windows = append(limits, limit("output", s.output)), []string{"requests", "input-tokens", "output-tokens"}
		}
		limits, windows = append(limits, b.Limiter(client, reserve.Config{Name: "calls", Group: "llm", Limit: reserve.Concurrent(200)})), append(windows, "calls")
		all, err := reserve.All(limits...)
		require.NoError(t, err)
		s.limits = all
		paced := newTransport(t, transport.Config{Base: emulator.RoundTripper(account), API: s.api, Tokens: s.tokens, Choose: func(r *http.Request) (transport.Need, error) {
			input, output := 0, 0
			_, err := fmt.Sscan(r.Header.Get("Estimate"), &input, &output)
			costs := []int{1, input, output, 1}
			if s.output == 0 {
				costs = []int{1, input, 1}
			}
			return transport.Need{Limiter: all, Costs: costs, Windows: windows}, err
		}})
		for range s.agents {
			agents.Go(func() {
				for ctx.Err() == nil {
					mu.Lock()
					answer, name := s.answer(random), strconv.Itoa(number)
					input, output := s.estimate(answer, random)
					number++
					mu.Unlock()
					answers.Store(name, answer)
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example"+s.path, strings.NewReader(s.body))
					if err != nil {
						return
					}
					r.Header.Set("Estimate", fmt.Sprint(input, output))
					r.Header.Set("Number", name)
					response, err := paced.RoundTrip(r)
					if err != nil && s.failed != nil && ctx.Err() == nil {
						s.failed(err)
						time.Sleep(10 * time.Second)
						continue
					}
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if s.met != nil {
						s.met(response)
					}
				}
			})
		}
	}
	agents.Wait()
}

// found returns the answer to a call.
func found(answers *sync.Map) emulator.Wire {
	return emulator.Wire{Every: 2 * time.Second, Answer: func(c emulator.Call) emulator.Answer {
		a, _ := answers.Load(c.Request.Header.Get("Number"))
		answer, _ := a.(emulator.Answer)
		return answer
	}}
}

// A fleet of streams uses its account of Anthropic and is not refused: with true estimates, with wrong ones in both
// directions, and where a fifth of the streams is cut. Used is measured after the first minute.
func TestFleetOfStreams(t *testing.T) {
	settles := func(_ *http.Response, u bodies.Usage) []int { return []int{-1, u.Input + u.CacheWrite, u.Output, -1} }
	steady := func(*rand.Rand) emulator.Answer {
		return emulator.Answer{Input: 20_000, CacheRead: 60_000, Output: 800, Wait: 4 * time.Second, PerSecond: 100}
	}
	long := func(cut float64) func(*rand.Rand) emulator.Answer {
		return func(r *rand.Rand) emulator.Answer {
			a := emulator.Answer{Input: 1000, Output: 4000, Wait: 3 * time.Second, PerSecond: 80}
			if r.Float64() < cut {
				a.Cut, a.Reset = max(0.001, r.Float64()), r.IntN(2) == 0
			}
			return a
		}
	}
	for _, c := range []struct {
		name    string
		scene   scene
		limit   string  // the limit that binds
		least   float64 // of it that is used
		refused float64 // the most calls, as a share
	}{
		{"steady", scene{agents: 8, lasts: 3 * time.Minute, burst: 10 * time.Second, answer: steady, estimate: func(a emulator.Answer, _ *rand.Rand) (int, int) { return a.Input, a.Output }}, "input-tokens", 0.97, 0},
		{"estimates three times too low or too high", scene{agents: 12, lasts: 5 * time.Minute, burst: 30 * time.Second, answer: steady, estimate: func(a emulator.Answer, r *rand.Rand) (int, int) {
			if r.IntN(2) == 0 {
				return a.Input / 3, a.Output
			}
			return a.Input * 3, a.Output
		}}, "input-tokens", 0.97, 0.003},
		{"a fifth of the streams is cut", scene{agents: 24, lasts: 3 * time.Minute, burst: 15 * time.Second, answer: long(0.2), estimate: func(emulator.Answer, *rand.Rand) (int, int) { return 1000, 3600 }}, "output-tokens", 0.96, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "steady" {
				redistest.GateOnly(t)
			}
			synctest.Test(t, func(t *testing.T) {
				var answers sync.Map
				api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: 1_500_000, Output: 300_000, Wire: found(&answers)})
				require.NoError(t, err)
				c.scene.requests, c.scene.input, c.scene.output = 2000, 1_500_000, 300_000
				c.scene.api, c.scene.tokens, c.scene.path, c.scene.body = bodies.Anthropic, settles, "/v1/messages", `{"model":"m","stream":true,"max_tokens":8192}`
				early := 0.0
				time.AfterFunc(time.Minute, func() { early = api.Report().Limit(c.limit).Used })
				c.scene.play(t, api, &answers)
				report := api.Report()
				used := (report.Limit(c.limit).Used - early) / ((c.scene.lasts - time.Minute).Minutes() * map[string]float64{"input-tokens": 1_500_000, "output-tokens": 300_000}[c.limit])
				refused := float64(report.Refused["rate_limit_error"]) / float64(report.Admitted)
				t.Logf("%s: %.3f used (required %.2f), %.4f refused, at most %d open, %d calls", c.limit, used, c.least, refused, report.MostOpen, report.Admitted)
				assert.GreaterOrEqual(t, used, c.least)
				assert.LessOrEqual(t, refused, c.refused)
				synctest.Wait()
				assert.Zero(t, api.Report().Open)
			})
		})
	}
}

// openAI is a fleet that reserves what OpenAI counts, and settles nothing: 122 calls per minute of 4096 tokens.
func openAI() scene {
	return scene{
		agents: 5, burst: 10 * time.Second, requests: 5000, input: 500_000, api: bodies.OpenAI, path: "/v1/chat/completions",
		body: `{"model":"m","stream":true,"max_tokens":4096}`,
		answer: func(*rand.Rand) emulator.Answer {
			return emulator.Answer{Input: 3000, Output: 400, Wait: time.Second, PerSecond: 100}
		},
		estimate: func(emulator.Answer, *rand.Rand) (int, int) { return 4096, 0 },
	}
}

func newOpenAI(t *testing.T, answers *sync.Map) *emulator.OpenAI {
	t.Helper()
	api, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 5000, Tokens: 500_000, Wire: found(answers)})
	require.NoError(t, err)
	return api
}

// A fleet uses an account that refunds nothing, and is not refused.
func TestFleetWithoutRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers sync.Map
		api, s, early := newOpenAI(t, &answers), openAI(), 0
		s.lasts = 3 * time.Minute
		time.AfterFunc(time.Minute, func() { early = api.Report().Admitted })
		s.play(t, api, &answers)
		report := api.Report()
		perMinute := float64(report.Admitted-early) / 2
		t.Logf("%.0f calls per minute (possible 122, required 118), refused %v", perMinute, report.Refused)
		assert.GreaterOrEqual(t, perMinute, 118.0)
		assert.Empty(t, report.Refused)
	})
}

// An account that has no credit is left alone: after the first refusal come at most the calls that had their turns
// already, and then one probe in five minutes. All other calls fail within two seconds. The SDKs do not repeat them.
// Once somebody has paid, the fleet goes on: after a Resume, or after the next probe.
func TestFleetWithoutCredit(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		t.Run(fmt.Sprintf("resumed by hand: %v", resumes), func(t *testing.T) {
			if resumes {
				redistest.GateOnly(t)
			}
			synctest.Test(t, func(t *testing.T) {
				var answers sync.Map
				api, s := newOpenAI(t, &answers), openAI()
				s.lasts = 7 * time.Minute
				s.met = func(r *http.Response) {
					if r.StatusCode != http.StatusOK {
						assert.Equal(t, "false", r.Header.Get("X-Should-Retry"))
					}
				}
				start := time.Now()
				var mu sync.Mutex
				known, waiting := 0, int64(0)
				s.failed = func(err error) {
					assert.ErrorIs(t, err, reserve.ErrExhausted)
					mu.Lock()
					defer mu.Unlock()
					if time.Since(start) < 32*time.Second {
						known++
					}
				}
				time.AfterFunc(30*time.Second, func() {
					api.Stop("credit_balance_exhausted")
					states, err := s.limits.States(t.Context())
					assert.NoError(t, err)
					for i := range states {
						waiting += states[i].Waiting
					}
				})
				time.AfterFunc(5*time.Minute, func() {
					assert.LessOrEqual(t, api.Report().AfterStop, sceneProcesses+1)
					api.Resume()
					if resumes {
						assert.NoError(t, s.limits.Resume(t.Context()))
					}
				})
				before := 0
				time.AfterFunc(6*time.Minute+30*time.Second, func() { before = api.Report().Admitted })
				s.play(t, api, &answers)
				report := api.Report()
				t.Logf("%d calls after the first refusal (at most %d), %d calls fail within 2 s (%d waited), %v refused; %d in the last 30 s (possible 61)",
					report.AfterStop, sceneProcesses+1, known, waiting, report.Refused, report.Admitted-before)
				assert.Positive(t, waiting)
				assert.GreaterOrEqual(t, known, int(waiting))
				assert.GreaterOrEqual(t, report.Admitted-before, 58)
				assert.Len(t, report.Refused, 1)
			})
		})
	}
}

package llm_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

const comparedTokens = 750_000 // of prompts, per minute

// minute counts the tokens of responses in each minute of the clock, as gateways do. It refuses requests while they have
// used the limit.
type minute struct {
	mu     sync.Mutex
	begins time.Time
	tokens int
}

// left is how long the minute lasts, if its tokens are used up.
func (m *minute) left(more int) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if begins := now.Truncate(time.Minute); begins != m.begins {
		m.begins, m.tokens = begins, 0
	}
	if m.tokens += more; m.tokens < comparedTokens {
		return 0
	}
	return m.begins.Add(time.Minute).Sub(now)
}

type counted struct {
	io.Reader
	of *minute
}

func (c counted) Close() error {
	c.of.left(20_000)
	return nil
}

// Four ways to keep a limit, in one run each. One of four processes has a backlog, and the others call now and then.
func TestCompared(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	require.NoError(t, err)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	shared := &minute{}
	for _, c := range []struct {
		name string
		base func(http.RoundTripper) http.RoundTripper // nil: llm
	}{
		{"no limiter, retries of the SDK", func(r http.RoundTripper) http.RoundTripper { return r }},
		{"`x/time/rate`, a quarter in each process", func(r http.RoundTripper) http.RoundTripper {
			own := rate.NewLimiter(comparedTokens/60/4, comparedTokens/6/4)
			return baseFunc(func(request *http.Request) (*http.Response, error) {
				if err := own.WaitN(request.Context(), 20_000); err != nil {
					return nil, err
				}
				return r.RoundTrip(request)
			})
		}},
		{"a gateway that counts tokens by the minute", func(r http.RoundTripper) http.RoundTripper {
			return baseFunc(func(request *http.Request) (*http.Response, error) {
				if left := shared.left(0); left > 0 {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {fmt.Sprint(int(left/time.Second) + 1)}}, Body: http.NoBody, Request: request}, nil
				}
				response, err := r.RoundTrip(request)
				if err == nil && response.StatusCode == http.StatusOK {
					response.Body = counted{response.Body, shared}
				}
				return response, err
			})
		}},
		{"fleetpace", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: comparedTokens, Output: 300_000, Holds: 20 * time.Second, Wire: emulator.Wire{Every: 4 * time.Second, Answer: func(emulator.Call) emulator.Answer {
					return emulator.Answer{Input: 20_000, Output: 800, Wait: 4 * time.Second, PerSecond: 100}
				}}})
				require.NoError(t, err)
				f := fableAgents(t, 66_000)
				f.config.Preset.Input = comparedTokens
				f.processes, f.each, f.lasts = 4, 8, 4*time.Minute
				f.rests = []time.Duration{0, 41 * time.Second, 53 * time.Second, 67 * time.Second}
				f.apart = 29 * time.Millisecond // Calls and pauses take whole seconds, so no two agents ever meet: a run is repeatable.
				f.alone, f.base = c.base != nil, c.base
				f.failed = func(error) time.Duration { return time.Second } // the fleet ends
				used := 0.0
				f.at[time.Minute] = func() { used = -api.Report().Limit("input-tokens").Used }
				f.at[f.lasts-time.Second] = func() { used += api.Report().Limit("input-tokens").Used }
				f.run(t, bubble.New(t), api)
				slices.Sort(f.waits)
				refused := refusals(api.Report())
				got := []float64{used / comparedTokens / 3, float64(len(api.Report().Calls)), float64(refused), float64(f.lost), (f.waits[len(f.waits)*95/100] - 12*time.Second).Seconds(), float64(refused) / 50}
				t.Logf("| %s | %.2f | %.0f | %.0f | %.0f | %.0f s | %.1f million |", c.name, got[0], got[1], got[2], got[3], got[4], got[5])
				_, after, found := strings.Cut(string(page), "\n| "+c.name+" |")
				require.True(t, found, "docs/models.md lacks the row")
				cells := strings.Split(after, "|")
				short := "\n| " + c.name + " |" + cells[0] + "|" + cells[2] + "|" + cells[3] + "|\n"
				assert.True(t, strings.Contains(string(readme), short), "the README lacks %s", short)
				for i, cell := range cells[:len(got)] {
					var said float64
					_, err := fmt.Sscan(cell, &said)
					require.NoError(t, err)
					assert.InDelta(t, said, got[i], []float64{0.02, 5, 5, 5, 6, 0.1}[i], "docs/models.md: %s", cell)
				}
			})
		})
	}
}

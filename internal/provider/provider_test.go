package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAgainstDefinition proves on random histories that each rule accepts and
// refuses by its definition, computed the slow way, and that retryAfter is
// honest: one nanosecond earlier is refused, on time is accepted.
func TestAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		window := rapid.SampledFrom([]time.Duration{7 * time.Millisecond, time.Second}).Draw(t, "window")
		kind := rapid.SampledFrom([]string{"rolling", "fixed", "bucket"}).Draw(t, "kind")
		// A bucket that fills in one window. A step of 1/64 of it is a time at
		// which a level can be told from the next one.
		perSecond := float64(limit) / window.Seconds()
		newRule := func() Rule {
			switch kind {
			case "rolling":
				return RollingWindow(limit, window)
			case "fixed":
				return FixedWindow(limit, window)
			default:
				return TokenBucket(perSecond, limit)
			}
		}
		p := New(newRule())
		at := t0
		var accepted []Call
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			at = at.Add(window / 64 * time.Duration(rapid.IntRange(0, 32).Draw(t, "step")))
			n := rapid.IntRange(1, limit+1).Draw(t, "n")

			want := false
			switch kind {
			case "rolling":
				sum := n
				for _, c := range accepted {
					if at.Sub(c.At) < window {
						sum += c.N
					}
				}
				want = sum <= limit
			case "fixed":
				sum := n
				for _, c := range accepted {
					if c.At.Truncate(window).Equal(at.Truncate(window)) {
						sum += c.N
					}
				}
				want = sum <= limit
			case "bucket":
				// No stretch of the history may hold more than burst + rate*length.
				want = true
				sum := n
				for i := len(accepted); i >= 0; i-- {
					from := at
					if i < len(accepted) {
						from = accepted[i].At
						sum += accepted[i].N
					}
					if float64(sum) > float64(limit)+perSecond*at.Sub(from).Seconds()+slack {
						want = false
					}
				}
			}

			ok, after := p.JudgeAt(at, n)
			require.Equal(t, want, ok, "%s: call of %d at %v", kind, n, at.Sub(t0))
			if ok {
				accepted = append(accepted, Call{At: at, N: n})
				continue
			}
			if n > limit {
				require.Equal(t, Never, after)
				continue
			}
			require.Positive(t, after)
			replay := func(wait time.Duration) bool {
				q := New(newRule())
				for _, c := range accepted {
					ok, _ := q.JudgeAt(c.At, c.N)
					require.True(t, ok)
				}
				ok, _ := q.JudgeAt(at.Add(wait), n)
				return ok
			}
			require.True(t, replay(after), "refused after retryAfter %v", after)
			// The bucket's slack is worth some nanoseconds.
			early := time.Nanosecond
			if kind == "bucket" {
				early = 1 + time.Duration(2*slack/perSecond*1e9)
			}
			require.False(t, replay(after-early), "accepted %v before retryAfter %v", early, after)
		}
	})
}

// TestWorstWindow proves that refused calls count, that the window rolls and
// that calls exactly one window apart are apart.
func TestWorstWindow(t *testing.T) {
	p := New(TokenBucket(10, 2))
	assert.Zero(t, p.WorstWindow(time.Second), "no calls")
	for _, c := range []struct {
		at time.Time
		n  int
	}{{t0, 1}, {t1, 1}, {t3, 2}, {t3, 1}, {t9, 1}} {
		p.JudgeAt(c.at, c.n)
	}
	assert.Equal(t, 1, p.Summary().Refused)
	for w, want := range map[time.Duration]int{
		0:            0,
		-time.Second: 0,
		1:            3,
		2 * step:     3,
		2*step + 1:   4,
		3*step + 1:   5,
		9 * step:     5,
		9*step + 1:   6,
		time.Hour:    6,
	} {
		assert.Equal(t, want, p.WorstWindow(w), "window %v", w)
	}
}

func TestUtilization(t *testing.T) {
	s := Summary{Requests: 101, First: t0, Last: t0.Add(2 * time.Second)}
	assert.InDelta(t, 1.0, s.Utilization(50, 1), 1e-12)
	assert.InDelta(t, 0.91, s.Utilization(50, 10), 1e-12)
	assert.Zero(t, Summary{}.Utilization(50, 1))
	assert.Zero(t, Summary{Requests: 1, First: t0, Last: t0}.Utilization(50, 1))
	assert.Zero(t, s.Utilization(0, 1))
}

// TestWrongUsePanics proves that a nonsensical rule or history is not judged.
func TestWrongUsePanics(t *testing.T) {
	for want, f := range map[string]func(){
		"TokenBucket(perSecond 0)": func() { TokenBucket(0, 1) },
		"TokenBucket(perSecond -":  func() { TokenBucket(-1, 1) },
		"TokenBucket(burst 0)":     func() { TokenBucket(1, 0) },
		"RollingWindow(n 0)":       func() { RollingWindow(0, time.Second) },
		"RollingWindow(window 0s)": func() { RollingWindow(1, 0) },
		"FixedWindow(n -1)":        func() { FixedWindow(-1, time.Second) },
		"FixedWindow(window -1s)":  func() { FixedWindow(1, -time.Second) },
		"rule 1 is empty":          func() { New(TokenBucket(1, 1), Rule{}) },
		"costs 0 permits":          func() { New().JudgeAt(t0, 0) },
		"100ms before the previous": func() {
			p := New()
			p.JudgeAt(t1, 1)
			p.JudgeAt(t0, 1)
		},
	} {
		t.Run(want, func(t *testing.T) {
			defer func() { assert.Contains(t, recover(), want) }()
			f()
		})
	}
}

// TestConcurrentCalls proves that callers at the same moment get exactly the
// burst, and that the history has them all.
func TestConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(TokenBucket(1, 30))
		var accepted sync.Map
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if ok, _ := p.Judge(1); ok {
					accepted.Store(i, true)
				}
			})
		}
		wg.Wait()
		n := 0
		accepted.Range(func(any, any) bool { n++; return true })
		assert.Equal(t, 30, n)
		assert.Equal(t, 70, p.Summary().Refused)
		assert.Len(t, p.History(), 100)

		p.History()[0].N = 99
		assert.Equal(t, 1, p.History()[0].N, "History is a copy")
	})
}

// unreadable is a body that fails the test when somebody reads it.
type unreadable struct{ t *testing.T }

func (b unreadable) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

// TestHandler proves that judging happens before the body is read, that a
// refusal does not reach the API, and what its answer looks like.
func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		perSecond float64
		want      string
	}{{0.4, "3"}, {0.5, "2"}, {1000, "1"}} {
		synctest.Test(t, func(t *testing.T) {
			served := 0
			h := New(TokenBucket(tt.perSecond, 1)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served++
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Equal(t, "hello", string(body))
				w.WriteHeader(http.StatusTeapot)
			}))

			first := httptest.NewRecorder()
			h.ServeHTTP(first, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
			assert.Equal(t, http.StatusTeapot, first.Code)

			second := httptest.NewRecorder()
			h.ServeHTTP(second, httptest.NewRequest(http.MethodPost, "/", unreadable{t}))
			assert.Equal(t, http.StatusTooManyRequests, second.Code)
			assert.Equal(t, tt.want, second.Header().Get("Retry-After"))
			assert.Equal(t, "application/json", second.Header().Get("Content-Type"))
			var body struct {
				Error   string `json:"error"`
				Seconds int    `json:"retry_after_seconds"`
			}
			require.NoError(t, json.Unmarshal(second.Body.Bytes(), &body))
			assert.NotEmpty(t, body.Error)
			assert.Positive(t, body.Seconds)
			assert.Equal(t, 1, served)

			// Who waits as told is served.
			time.Sleep(time.Duration(body.Seconds) * time.Second)
			third := httptest.NewRecorder()
			h.ServeHTTP(third, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
			assert.Equal(t, http.StatusTeapot, third.Code)
		})
	}
}

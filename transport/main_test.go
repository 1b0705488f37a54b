package transport_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// No test leaves a goroutine behind.
func TestMain(m *testing.M) {
	observe.Turns(func(turn observe.Turn) {
		turns.Lock()
		turns.of[turn.Limit]++
		turns.moments[turn.Prefix] = append(turns.moments[turn.Prefix], turn.Turn)
		turns.Unlock()
	})
	goleak.VerifyTestMain(m)
}

// turns are how many calls of a limit had one, and those under a prefix of keys, by Redis's clock.
var turns = struct {
	sync.Mutex
	of      map[string]int
	moments map[string][]time.Time
}{of: map[string]int{}, moments: map[string][]time.Time{}}

// limiter is one on a Redis of its own, which keeps what it was told.
type limiter struct {
	*reserve.Limiter
	*bubble.Bubble
	*told
}

// pause is one that was asked for.
type pause struct {
	For    time.Duration
	Reason string
}

var named atomic.Int64

func newLimiter(t testing.TB, limit reserve.Limit) *limiter {
	t.Helper()
	b := bubble.New(t)
	l := &limiter{Bubble: b, told: &told{Handler: slog.DiscardHandler}}
	// Turns of all tests are counted by the name.
	l.Limiter = b.Limiter(b.Client(), reserve.Config{Name: fmt.Sprint("api-", named.Add(1)), Limit: limit, Logger: slog.New(l.told)})
	return l
}

// fast is a limiter that nobody waits for.
func fast(t testing.TB) *limiter { return newLimiter(t, reserve.PerSecond(100_000).Burst(1000)) }

// used is how many calls had a turn.
func (l *limiter) used() int {
	turns.Lock()
	defer turns.Unlock()
	return turns.of[l.Limiter.String()]
}

// inForce is the limit that is.
func (l *limiter) inForce(t testing.TB) reserve.State {
	t.Helper()
	state, err := l.State(t.Context())
	require.NoError(t, err)
	return state
}

// told is a log that keeps pauses.
type told struct {
	slog.Handler
	mu     sync.Mutex
	paused []pause
}

func (*told) Enabled(context.Context, slog.Level) bool { return true }

func (l *told) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "fleetpace: paused" {
		return nil
	}
	var p pause
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "pause":
			p.For = a.Value.Duration()
		case "reason":
			p.Reason = a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = append(l.paused, p)
	return nil
}

func (l *told) pauses() []pause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.paused)
}

func newTransport(t *testing.T, config transport.Config) *transport.Transport {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Base == nil {
		// One of its own, so that no connection outlives the test.
		base := &http.Transport{}
		t.Cleanup(base.CloseIdleConnections)
		config.Base = base
	}
	paced, err := transport.New(config)
	require.NoError(t, err)
	return paced
}

// script is a Base that gives these answers in turn, the last one again and
// again, and keeps what it was sent.
type script struct {
	answers []reply
	body    string // of the answers; empty: answer

	mu   sync.Mutex
	sent []sent
}

type reply struct {
	status int
	header string // lines of Name: value
}

type sent struct {
	request *http.Request
	body    string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[min(len(s.sent), len(s.answers)-1)]
	s.sent = append(s.sent, sent{r, string(body)})
	header := http.Header{}
	for line := range strings.Lines(a.header) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			header.Add(name, value)
		}
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(cmp.Or(s.body, "answer"))), Request: r}, nil
}

func (s *script) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// closes tells whether a request body was closed.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

func newRequest(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return r
}

// do sends the request, reads the answer to its end and returns its status.
func do(t *testing.T, via http.RoundTripper, r *http.Request) int {
	t.Helper()
	response, err := via.RoundTrip(r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func logTo(buffer *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(buffer, nil))
}

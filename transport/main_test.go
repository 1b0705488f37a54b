package transport_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/internal/inprocess"
)

// No test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the documentation says of *reserve.Limiter.
var (
	_ transport.Limiter  = (*reserve.Limiter)(nil)
	_ transport.Pauser   = (*inprocess.Limiter)(nil)
	_ transport.Adjuster = (*inprocess.Limiter)(nil)
)

// plain hides what a limiter can do besides giving turns.
type plain struct{ transport.Limiter }

// fast is a limiter that nobody waits for.
func fast() *inprocess.Limiter { return inprocess.New(reserve.PerSecond(100_000).Burst(1000)) }

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
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader("answer")), Request: r}, nil
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

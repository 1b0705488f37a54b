package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// TestJudge: calls of many callers at once reach a strict provider as its limit
// allows, each with one turn.
func TestJudge(t *testing.T) {
	t.Parallel()
	const calls, rate = 300, 200
	limiter := newLimiter(t, reserve.PerSecond(rate))
	judge := provider.New(provider.TokenBucket(rate, 40)) // 200 ms for the machine
	api := httptest.NewServer(judge.Handler(http.NotFoundHandler()))
	t.Cleanup(api.Close)
	paced := newTransport(t, transport.Config{Limiter: limiter})

	var group errgroup.Group
	group.SetLimit(30) // however late they are, no more than the burst come together
	for range calls {
		group.Go(func() error {
			if status := do(t, paced, newRequest(t, "GET", api.URL, nil)); status != http.StatusNotFound {
				return errors.New(http.StatusText(status))
			}
			return nil
		})
	}
	assert.NoError(t, group.Wait())
	history := judge.History()
	t.Logf("MEASURE %d calls at %d/s took %v", len(history), rate, history[len(history)-1].At.Sub(history[0].At))
	assert.Len(t, history, calls)
	assert.Equal(t, calls, limiter.used())
}

// TestRedirects: each hop is a call, and takes a turn.
func TestRedirects(t *testing.T) {
	var hops atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := hops.Add(1); n <= 3 {
			http.Redirect(w, r, "/"+strconv.Itoa(int(n)), http.StatusFound)
		}
	}))
	t.Cleanup(api.Close)
	limiter := fast(t)
	client := &http.Client{Transport: newTransport(t, transport.Config{Limiter: limiter})}
	response, err := client.Get(api.URL)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, "/3", response.Request.URL.Path)
	assert.Equal(t, 4, limiter.used())
}

// TestHTTP2: requests that share a connection take one turn each.
func TestHTTP2(t *testing.T) {
	var seen atomic.Int32
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			seen.Add(1)
		}
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	limiter := fast(t)
	paced := newTransport(t, transport.Config{Limiter: limiter, Base: api.Client().Transport})
	assert.Equal(t, http.StatusOK, do(t, paced, newRequest(t, "GET", api.URL, nil))) // makes the connection
	var group errgroup.Group
	for range 100 {
		group.Go(func() error {
			assert.Equal(t, http.StatusOK, do(t, paced, newRequest(t, "GET", api.URL, nil)))
			return nil
		})
	}
	require.NoError(t, group.Wait())
	assert.EqualValues(t, 101, seen.Load())
	assert.Equal(t, 101, limiter.used())
}

// dying is a server that answers the first request on each connection, and closes
// the connection at the second one, which it counts, but does not answer.
func dying(t *testing.T) (url string, requests *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	requests = new(atomic.Int32)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for n := range 2 {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					requests.Add(1)
					if n == 0 {
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String(), requests
}

// TestDeadConnection: what net/http sends again by itself takes a turn, too.
func TestDeadConnection(t *testing.T) {
	url, requests := dying(t)
	limiter := fast(t)
	paced := newTransport(t, transport.Config{Limiter: limiter})
	for sent := 1; ; sent++ {
		assert.Equal(t, http.StatusOK, do(t, paced, newRequest(t, "GET", url, nil)))
		if int(requests.Load()) > sent {
			break // it was sent on the kept connection first
		}
		require.Less(t, sent, kept)
	}
	assert.EqualValues(t, requests.Load(), limiter.used())
}

// kept is after how many requests of a client one connection was kept for the next: net/http
// gives one up where the machine is busy.
const kept = 20

// TestDeadConnectionWithoutTurn: where there is no turn for it, it is not sent.
func TestDeadConnectionWithoutTurn(t *testing.T) {
	url, requests := dying(t)
	for tries := 1; ; tries++ {
		before := requests.Load()
		paced := newTransport(t, transport.Config{Limiter: newLimiter(t, reserve.Quota(2, reserve.CalendarMonth))})
		assert.Equal(t, http.StatusOK, do(t, paced, newRequest(t, "GET", url, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		answer, err := paced.RoundTrip(newRequest(t, "GET", url, nil).WithContext(ctx))
		cancel()
		assert.EqualValues(t, 2, requests.Load()-before)
		if err != nil {
			assert.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
			return
		}
		_ = answer.Body.Close() // the connection was not kept
		require.Less(t, tries, kept)
	}
}

// TestNoTurn: without a turn nothing is sent, the body is closed, and the error
// is the limiter's own.
func TestNoTurn(t *testing.T) {
	wrong := errors.New("wrong")
	closed := fast(t)
	require.NoError(t, closed.Close())
	several := fast(t).Joint(closed.Client(), reserve.Config{Limit: reserve.PerSecond(1)}, reserve.Config{Limit: reserve.PerSecond(1)})
	chooses := func(turn transport.Need, err error) transport.Config {
		return transport.Config{Choose: func(*http.Request) (transport.Need, error) { return turn, err }}
	}
	for _, c := range []struct {
		name   string
		config transport.Config
		is     error
	}{
		{"Choose fails", chooses(transport.Need{}, wrong), wrong},
		{"the limiter fails", transport.Config{Limiter: closed}, reserve.ErrClosed},
		{"Cost and Costs", chooses(transport.Need{Limiter: several, Cost: 1, Costs: []int{1, 1}}, nil), transport.ErrInvalid},
		{"a cost too few", chooses(transport.Need{Limiter: several, Costs: []int{1}}, nil), transport.ErrInvalid},
		{"Window and Windows", chooses(transport.Need{Limiter: several, Window: "a", Windows: []string{"a", "b"}}, nil), transport.ErrInvalid},
		{"a window too many", chooses(transport.Need{Limiter: several, Windows: []string{"a", "b", "c"}}, nil), transport.ErrInvalid},
		{"a cost above the burst", chooses(transport.Need{Limiter: several, Cost: 2}, nil), reserve.ErrExceedsBurst},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := &script{answers: []reply{{status: 200}}}
			c.config.Base = base
			body := &closes{Reader: strings.NewReader("x")}
			_, err := newTransport(t, c.config).RoundTrip(newRequest(t, "PUT", "http://api.test/a?key=secret", body)) //nolint:bodyclose // there is no answer
			assert.ErrorIs(t, err, c.is)
			assert.True(t, body.closed)
			assert.Zero(t, base.times())
		})
	}
}

// TestCancelledWhileWaiting: a context that ends, or a deadline, ends the wait.
func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &script{answers: []reply{{status: 200}}}
		limiter := newLimiter(t, reserve.PerHour(1))
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: base})
		assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		body := &closes{Reader: strings.NewReader("x")}
		began := time.Now()
		_, err := paced.RoundTrip(newRequest(t, "PUT", "http://api.test", body).WithContext(ctx)) //nolint:bodyclose // there is no answer
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Minute, time.Since(began))
		assert.True(t, body.closed)

		began = time.Now()
		client := &http.Client{Transport: paced, Timeout: time.Second}
		_, err = client.Get("http://api.test") //nolint:bodyclose // there is no answer
		assert.ErrorIs(t, err, reserve.ErrWouldMissDeadline, "it is no use to wait")
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, 1, base.times())
	})
}

// TestChoose: requests take turns at different limits, at their cost, or none.
func TestChoose(t *testing.T) {
	base := &script{answers: []reply{{status: 429, header: "Retry-After: 60"}}}
	a, b := newLimiter(t, reserve.PerSecond(1).Burst(10)), fast(t)
	paced := newTransport(t, transport.Config{Base: base, Choose: func(r *http.Request) (transport.Need, error) {
		switch r.URL.Host {
		case "a.test":
			return transport.Need{Limiter: a, Cost: 10}, nil
		case "b.test":
			return transport.Need{Limiter: b}, nil
		}
		return transport.Need{}, nil
	}})
	for _, host := range []string{"a", "b", "c"} {
		assert.Equal(t, 429, do(t, paced, newRequest(t, "GET", "http://"+host+".test", nil)))
	}
	assert.Equal(t, 3, base.times())
	assert.Equal(t, []pause{{For: time.Minute, Reason: "a.test answered 429"}}, a.pauses())
	assert.Equal(t, []pause{{For: time.Minute, Reason: "b.test answered 429"}}, b.pauses())
	assert.Equal(t, 1, a.used())
	assert.Greater(t, a.inForce(t).Wait, 50*time.Second, "the cost was paid, and the limit is paused")
}

// TestUntouched: the caller's request stays as it is, and the answer comes as it
// is.
func TestUntouched(t *testing.T) {
	const text = "an answer \x00\xff of bytes"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(api.Close)
	paced := newTransport(t, transport.Config{Limiter: fast(t)})
	r := newRequest(t, "POST", api.URL+"/a", strings.NewReader("x"))
	r.Header.Set("X-Mine", "1")
	before := *r
	header := r.Header.Clone()
	response, err := paced.RoundTrip(r)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, text, string(body))
	assert.Equal(t, "/a", response.Header.Get("X-Path"))
	assert.Same(t, r, response.Request)
	assert.Equal(t, header, r.Header)
	assert.Equal(t, before.Body, r.Body)
	assert.Equal(t, before.Context(), r.Context())
}

// TestUpgrade: after a change of protocol the body can still be written to.
func TestUpgrade(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}))
	t.Cleanup(api.Close)
	r := newRequest(t, "GET", api.URL, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	response, err := newTransport(t, transport.Config{Limiter: fast(t)}).RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	conn, ok := response.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	echo, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", echo)
}

type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

// TestCloseIdleConnections: it reaches the Base, which may have none to close.
func TestCloseIdleConnections(t *testing.T) {
	base := &closer{}
	client := &http.Client{Transport: newTransport(t, transport.Config{Limiter: fast(t), Base: base})}
	client.CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	newTransport(t, transport.Config{Limiter: fast(t), Base: &script{}}).CloseIdleConnections()
}

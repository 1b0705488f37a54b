package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// roundRobin starts a proxy that sends each request to the next server, whether or not it lives.
func roundRobin(t *testing.T, servers ...*served) *httptest.Server {
	var next atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(servers[next.Add(1)%int64(len(servers))].address)
		assert.NoError(t, err)
		r.SetURL(to)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(proxy.Close)
	return proxy
}

// Behind a proxy that knows nothing, calls hold no more slots than there are. A server is killed and started again
// meanwhile: calls keep their slots, whichever server has granted them.
func TestServeBehindRoundRobin(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.New(t), redistest.Prefix(t)
	const limits, body = "limits:\n  - {name: api, limit: 2 at once}\n", `{"limits":[{"name":"api"}]}`
	servers := []*served{serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0"), serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0")}
	proxy := &served{t: t, address: roundRobin(t, servers...).URL}
	client := proxy.client()
	persist := func(path, body string) { // until a server answers
		for {
			if status, _ := ask(t.Context(), client, path, body); status > 0 && status < http.StatusInternalServerError {
				assert.True(t, status < 300 || path == "/v1/release", "%s: %d", path, status) // it may have lost an answer
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	var held, most, calls atomic.Int64
	var enough atomic.Bool
	var all sync.WaitGroup
	began := time.Now()
	for range 4 {
		all.Go(func() {
			for !enough.Load() {
				turn := tryTake(t, client, body)
				if turn == "" {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				n := held.Add(1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				for range 3 {
					time.Sleep(200 * time.Millisecond)
					persist("/v1/renew", turn)
				}
				held.Add(-1)
				calls.Add(1)
				persist("/v1/release", turn)
			}
		})
	}
	more := func(n int64) {
		before := calls.Load()
		assert.Eventually(t, func() bool { return calls.Load() >= before+n }, time.Minute, 10*time.Millisecond, "calls go on")
	}
	more(2)
	servers[0].kill()
	more(2)
	serveTurnsOf(t, server, prefix, limits, servers[0].address[len("http://"):])
	more(4)
	enough.Store(true)
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(2))
	t.Logf("MEASURE %d calls of 0.6 s in %v with 2 slots", calls.Load(), time.Since(began).Round(time.Millisecond))
}

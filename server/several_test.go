package server_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/server"
)

// roundRobin sends each request to the next server. A server that is down answers nothing.
type roundRobin struct {
	servers [2]atomic.Pointer[one]
	next    atomic.Int64
}

// one is a server that can be killed.
type one struct {
	http.Handler
	life context.Context
	kill func()
}

func startOne(t *testing.T, b *bubble.Bubble) *one {
	client := b.Client()
	ctx, cancel := context.WithCancel(t.Context())
	return &one{siteOn(t, client, server.Config{}), ctx, func() {
		cancel()
		_ = client.Close()
	}}
}

func (r *roundRobin) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s := r.servers[r.next.Add(1)%2].Load()
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, q.WithContext(ctx))
	if s.life.Err() != nil {
		answer = httptest.NewRecorder()
		answer.Header().Set("Content-Type", "application/problem+json")
		answer.Header().Set("Retry-After", "0")
		answer.WriteHeader(http.StatusServiceUnavailable)
		_, _ = answer.WriteString(`{"title":"Away","status":503,"detail":"It is down."}`)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// Callers whose requests go to any of two servers never hold more slots than there are. A server is killed and started
// again: its callers keep their slots, as they renew them at the other one. A caller that is gone keeps its slot for a lease.
func TestSlotsAtAnyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		var proxy roundRobin
		for i := range proxy.servers {
			proxy.servers[i].Store(startOne(t, b))
		}
		began := time.Now()
		var all sync.WaitGroup
		var held atOnce
		var calls atomic.Int64
		until := func(path, text string) answer { // asks until a server answers
			for {
				if w := post(t, &proxy, path, text); w.Code < 500 {
					assert.Less(t, w.Code, 300, "%s after %v: %s", path, time.Since(began), w.Body)
					if w.Code == http.StatusNoContent {
						return answer{}
					}
					return body(t, w)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		caller := func() {
			for time.Since(began) < 40*time.Second {
				a := until("/v1/wait", wants("slots"))
				for a.Turn == "" {
					time.Sleep(time.Duration(a.Retry * float64(time.Millisecond)))
					a = until("/v1/wait", wants("slots", `"id":"`+a.ID+`"`))
				}
				turn := `{"turn":"` + a.Turn + `"}`
				over, renewing := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(renewing)
					for {
						select {
						case <-over:
							return
						case <-time.After(2500 * time.Millisecond):
							until("/v1/renew", turn)
						}
					}
				}()
				held.run(7 * time.Second)
				calls.Add(1)
				close(over)
				<-renewing
				until("/v1/release", turn)
			}
		}
		for range 6 {
			all.Go(caller)
		}
		time.Sleep(9 * time.Second)
		proxy.servers[0].Load().kill()
		time.Sleep(10 * time.Second)
		proxy.servers[0].Store(startOne(t, b))
		all.Wait()
		t.Logf("%d calls in %v", calls.Load(), time.Since(began))
		require.EqualValues(t, 2, held.most.Load())
		require.Greater(t, float64(calls.Load())*7, 2*0.8*time.Since(began).Seconds(), "the slots are in use")
		w := post(t, proxy.servers[0].Load(), "/v1/wait", wants("slots"))
		require.Equal(t, http.StatusOK, w.Code)
		post(t, &proxy, "/v1/wait", wants("slots")) // its caller is gone
		proxy.servers[0].Load().kill()
		gone := time.Now()
		a := until("/v1/wait", wants("slots"))
		require.NotEmpty(t, a.Turn)
		require.InDelta(t, 8, time.Since(gone).Seconds(), 0.5)
	})
}

// A response with a slot is lost. The request that follows says so at another server, and the slot is free at once, and not
// only when its lease ends. A late copy of it does not take the slot of the next response.
func TestSlotsOfALostResponse(t *testing.T) {
	for name, id := range map[string]string{"without an id": "", "with an id": `"id":"job-7"`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				first, second := startOne(t, b), startOne(t, b)
				ask := func(server http.Handler, attempts, more string) (string, time.Duration) {
					began, extra := time.Now(), []string{`"poll":"20s"`}
					if more != "" {
						extra = append(extra, more)
					}
					r := request(t, http.MethodPost, "/v1/wait", wants("slots", extra...))
					r.Header.Set("Fleetpace-Caller", "web/1")
					r.Header.Set("Fleetpace-Attempt", attempts)
					w := do(t, server, r)
					require.Equal(t, http.StatusOK, w.Code, w.Body)
					return body(t, w).Turn, time.Since(began)
				}
				_, _ = ask(first, "the-other-slot-of-both", "")
				_, _ = ask(first, "attempt-one-which-is-lost", id) // it does not arrive
				first.kill()
				_, took := ask(second, "attempt-three-which-comes attempt-two-which-no-server-had attempt-one-which-is-lost", id)
				require.Less(t, took, 100*time.Millisecond)
				_, took = ask(second, "attempt-four-of-a-copy attempt-one-which-is-lost", "")
				require.Greater(t, took, 5*time.Second, "until the lease of the other slot ends")
			})
		})
	}
}

// A caller gives all its requests one name. Each turn that holds slots has a lease of its own all the same, so no more
// calls run than there are slots.
func TestSlotsOfRequestsOfOneName(t *testing.T) {
	for _, id := range []string{"", `"id":"job-7"`} {
		synctest.Test(t, func(t *testing.T) {
			b := bubble.New(t)
			server, began := startOne(t, b), time.Now()
			for range 6 {
				extra := []string{`"poll":"20s"`}
				if id != "" {
					extra = append(extra, id)
				}
				r := request(t, http.MethodPost, "/v1/wait", wants("slots", extra...))
				r.Header.Set("Fleetpace-Caller", "web/1")
				r.Header.Set("Fleetpace-Attempt", "always-the-same-name")
				w := do(t, server, r)
				require.Equal(t, http.StatusOK, w.Code, w.Body)
			}
			require.InDelta(t, 16, time.Since(began).Seconds(), 1, "two slots, each for a lease of 8 s")
		})
	}
}

// Names of requests have printable ASCII characters only. A header with another one counts for nothing.
func TestNamesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := startOne(t, bubble.New(t))
		for _, name := range []string{"caf\u00e9-of-many-letters", "bytes-\xff\xfe-of-nothing"} {
			r := request(t, http.MethodPost, "/v1/wait", wants("slots"))
			r.Header.Set("Fleetpace-Attempt", name)
			w := do(t, server, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, http.StatusOK, post(t, server, "/v1/renew", `{"turn":"`+body(t, w).Turn+`"}`).Code, name)
		}
	})
}

// If the slots of a lost response cannot be freed, the log says that. The request goes on.
func TestSlotsOfALostResponseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		var log strings.Builder
		server := siteOn(t, b.Client(), server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b.Refuse(lua.Leave)
		r := request(t, http.MethodPost, "/v1/wait", wants("slots"))
		r.Header.Set("Fleetpace-Caller", "web/1")
		r.Header.Set("Fleetpace-Attempt", "attempt-two-which-comes attempt-one-which-is-lost")
		do(t, server, r)
		require.Contains(t, log.String(), "could not free the slots of a lost response")
		require.NotContains(t, log.String(), "could not answer", "it is logged once a second")
	})
}

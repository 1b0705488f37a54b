package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// lines is a log that may be read while others write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ask sends a request as a caller, from an address.
func ask(ctx context.Context, t testing.TB, s *site, path, name, address, body string) *httptest.ResponseRecorder {
	r := request(t, http.MethodPost, path, body).WithContext(ctx)
	r.RemoteAddr = address + ":4711"
	r.Header.Set("Fleetpace-Caller", name)
	return do(t, s, r)
}

// A caller sends more requests than may wait. It gets four fifths of the places, and other callers still get one each.
// Callers without a name are told apart by their addresses. When requests end, others take their places.
func TestOneCallerLeavesPlacesToOthers(t *testing.T) {
	for name, callers := range map[string][2][2]string{
		"The caller web/1": {{"web/1", "10.0.0.1"}, {"web/2", "10.0.0.1"}},
		"Callers without a name at the address 10.0.0.1": {{"", "10.0.0.1"}, {"", "10.0.0.2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log lines
			s := newSite(t, bubble.New(t), server.Config{MaxWaiting: 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			post(t, s, "/v1/wait", wants("api"))
			require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"for":"10s"`)).Code)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			var waits sync.WaitGroup
			waiting := func(who [2]string, requests int) (refused []string) {
				var mu sync.Mutex
				for range requests {
					waits.Go(func() {
						w := ask(ctx, t, s, "/v1/wait", who[0], who[1], wants("api"))
						if ctx.Err() == nil {
							mu.Lock()
							defer mu.Unlock()
							require.Equal(t, http.StatusServiceUnavailable, w.Code)
							require.Equal(t, "1", w.Header().Get("Retry-After"))
							refused = append(refused, body(t, w).Detail)
						}
					})
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
				return refused
			}
			greedy, other := callers[0], callers[1]
			refused := waiting(greedy, 30)
			require.Len(t, refused, 14)
			require.Equal(t, name+" has 16 of the 20 requests that may wait at this server. Others may use the rest.", refused[0])
			require.Contains(t, log.String(), "caller="+map[bool]string{true: "web/1", false: "10.0.0.1"}[greedy[0] != ""])
			require.Empty(t, waiting(other, 3))
			hangUp()
			waits.Wait()
			ctx, hangUp = context.WithCancel(t.Context())
			require.Len(t, waiting(greedy, 17), 1, "the places of requests that have ended are free")
			hangUp()
			waits.Wait()
		})
	}
}

// A caller has more places between two requests than the server keeps. Others still get theirs.
func TestOneCallerLeavesKeptPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{MaxKept: 10})
		post(t, s, "/v1/wait", wants("api"))
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"for":"1s"`)).Code)
		codes := map[string]map[int]int{"web/1": {}, "web/2": {}}
		var mu sync.Mutex
		var waits sync.WaitGroup
		waiting := func(name string, requests int) {
			for range requests {
				waits.Go(func() {
					w := ask(t.Context(), t, s, "/v1/wait", name, "10.0.0.1", wants("api", `"poll":"3s"`))
					mu.Lock()
					defer mu.Unlock()
					codes[name][w.Code]++
				})
			}
			time.Sleep(time.Millisecond)
		}
		waiting("web/1", 12)
		waiting("web/2", 1)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"for":"30s"`)).Code)
		waits.Wait()
		require.Equal(t, map[string]map[int]int{"web/1": {http.StatusAccepted: 8, http.StatusServiceUnavailable: 4}, "web/2": {http.StatusAccepted: 1}}, codes)
		time.Sleep(time.Minute)
	})
}

// The span of a request has the name of its caller.
func TestSpansHaveTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		spans := tracetest.NewSpanRecorder()
		ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "POST /v1/wait")
		require.Equal(t, http.StatusOK, ask(ctx, t, s, "/v1/wait", "web 1", "10.0.0.1", wants("api")).Code)
		span.End()
		require.Contains(t, spans.Ended()[0].Attributes(), attribute.String("fleetpace.caller", "web_1"))
	})
}

// A log line about a request has the name of its caller, or its address.
func TestLogsHaveTheCaller(t *testing.T) {
	for want, name := range map[string]string{"caller=web/1": "web/1", "caller=10.0.0.1": ""} {
		synctest.Test(t, func(t *testing.T) {
			b := bubble.New(t)
			var log lines
			s := siteOn(t, b.Client(), server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			b.Redis.SetError("OOM command not allowed when used memory > 'maxmemory'.")
			require.Equal(t, http.StatusServiceUnavailable, ask(t.Context(), t, s, "/v1/allow", name, "10.0.0.1", wants("strict")).Code)
			b.Redis.SetError("")
			require.Contains(t, log.String(), want)
		})
	}
}

package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/server"
)

// upgraded is a fleet in simulated time whose processes are replaced by those of another version. Its API is strict.
type upgraded struct {
	*testing.T
	redis *reservetest.Server
	api   *reservetest.API
	limit reserve.Limit
	began time.Time
	calls sync.WaitGroup
}

func upgrade(t *testing.T, play func(f *upgraded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &upgraded{T: t, redis: reservetest.New(t), limit: reserve.PerSecond(50).Burst(5), began: time.Now()}
		f.api = reservetest.NewAPI(t, f.limit)
		play(f)
		f.calls.Wait()
		used := float64(len(f.api.Requests())) / (50 * time.Since(f.began).Seconds())
		t.Logf("MEASURE %d calls, %d refused, %.3f of the limit used", len(f.api.Requests()), f.api.Refused(), used)
		require.Zero(t, f.api.Refused())
		require.GreaterOrEqual(t, used, 0.97)
	})
}

// version is a client of a process of the version before, or of the current one.
func (f *upgraded) version(before bool) *redis.Client {
	client := f.redis.Client()
	if before {
		client.AddHook(frozen.New(frozen.Texts))
	}
	return client
}

// process starts a process whose callers call all the time. It returns how to stop it.
func (f *upgraded) process(before bool) (stop func()) {
	limiter, err := reserve.New(f.version(before), reserve.Config{Name: "api", Limit: f.limit})
	require.NoError(f, err)
	ctx, end := context.WithCancel(f.Context())
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for limiter.Wait(ctx) == nil {
				f.call()
			}
		})
	}
	return func() {
		end()
		callers.Wait()
		assert.NoError(f, limiter.Close())
	}
}

func (f *upgraded) call() {
	answer, err := f.api.Client().Get("http://api.test")
	if assert.NoError(f, err) {
		assert.NoError(f, answer.Body.Close())
	}
}

// Processes are replaced one after the other.
func TestRollingUpgrade(t *testing.T) {
	upgrade(t, func(f *upgraded) {
		var fleet []func()
		for range 4 {
			fleet = append(fleet, f.process(true))
		}
		time.Sleep(2 * time.Second)
		for i := range fleet {
			replacement := f.process(false)
			time.Sleep(time.Second)
			fleet[i]()
			fleet[i] = replacement
			time.Sleep(time.Second)
		}
		for _, stop := range fleet {
			stop()
		}
	})
}

// A second fleet is started beside the first one, which then ends at once. And back.
func TestBlueGreenUpgrade(t *testing.T) {
	for _, back := range []bool{false, true} {
		upgrade(t, func(f *upgraded) {
			var blue, green []func()
			for range 3 {
				blue = append(blue, f.process(!back))
			}
			time.Sleep(3 * time.Second)
			for range 3 {
				green = append(green, f.process(back))
			}
			time.Sleep(3 * time.Second)
			for _, stop := range blue {
				stop()
			}
			time.Sleep(3 * time.Second)
			for _, stop := range green {
				stop()
			}
		})
	}
}

// Workers ask two servers for turns, each call with an id. The servers are replaced one after the other.
func TestServersAreUpgraded(t *testing.T) {
	upgrade(t, func(f *upgraded) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		require.NoError(f, os.WriteFile(path, []byte("limits:\n  - name: api\n    limit: "+f.limit.String()+"\n"), 0o600))
		var mu sync.Mutex
		var servers []*server.Server
		start := func(before bool) *server.Server {
			logger := slog.New(slog.DiscardHandler)
			set, err := limits.Load(f.version(before), path, reserve.Config{Logger: logger})
			require.NoError(f, err)
			s, err := server.New(set, server.Config{Logger: logger})
			require.NoError(f, err)
			f.Cleanup(func() { _ = set.Close() })
			mu.Lock()
			servers = append(servers, s)
			mu.Unlock()
			return s
		}
		// wait asks a server, as a load balancer chooses it, until the call with the id has its turn.
		wait := func(id string, n int) bool {
			for ; f.Context().Err() == nil; n++ {
				mu.Lock()
				s := servers[n%len(servers)]
				mu.Unlock()
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/v1/wait", strings.NewReader(`{"limits": [{"name": "api"}], "id": "`+id+`"}`))
				r.Header.Set("Content-Type", "application/json")
				s.ServeHTTP(w, r)
				switch w.Code {
				case http.StatusOK:
					return true
				case http.StatusAccepted:
					var told struct {
						RetryAfter float64 `json:"retry_after_ms"`
					}
					assert.NoError(f, json.Unmarshal(w.Body.Bytes(), &told))
					time.Sleep(time.Duration(told.RetryAfter * float64(time.Millisecond)))
				case http.StatusServiceUnavailable: // this server ends
					time.Sleep(50 * time.Millisecond)
				default:
					assert.Fail(f, w.Body.String())
					return false
				}
			}
			return false
		}
		old := []*server.Server{start(true), start(true)}
		end := time.Now().Add(9 * time.Second)
		for k := range 40 {
			f.calls.Go(func() {
				for n := 0; time.Now().Before(end) && wait(fmt.Sprintf("job-%d-%d", k, n), k+n); n++ {
					f.call()
				}
			})
		}
		for _, s := range old {
			time.Sleep(2 * time.Second)
			start(false)
			time.Sleep(time.Second)
			mu.Lock() // the load balancer asks it no more
			servers = servers[1:]
			mu.Unlock()
			s.Drain()
		}
	})
}

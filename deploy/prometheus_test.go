package deploy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// Prometheus can read the rules, and the configuration of the demo. The rules fire in the situations
// of alerts_test.yaml that they are about, and in no other.
func TestPromtool(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		redistest.Missing(t, "promtool is not installed: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yaml"}} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		assert.NoError(t, err, string(out))
	}
}

// Each alert has a page that its link names.
func TestRunbooks(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	links := regexp.MustCompile(`runbook_url: \S+/deploy/(\S+)`).FindAllStringSubmatch(string(rules), -1)
	require.Len(t, links, len(alertsOf(t)))
	for _, l := range links {
		assert.FileExists(t, l[1])
	}
}

func alertsOf(t *testing.T) (names []string) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`- alert: (\S+)`).FindAllStringSubmatch(string(rules), -1) {
		names = append(names, m[1])
	}
	return names
}

// queries are those of the dashboard, by panel.
func queries(t *testing.T) map[string][]string {
	file, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(file, &dashboard))
	all := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$__rate_interval", "30s", "$limit", ".*").Replace(target.Expr))
		}
	}
	return all
}

// A quantile is of one limit: over several limits it would be of none.
func TestQuantiles(t *testing.T) {
	for panel, exprs := range queries(t) {
		for _, expr := range exprs {
			if strings.Contains(expr, "histogram_quantile") && strings.Contains(expr, "fleetpace_limit") {
				assert.Contains(t, expr, "sum by (fleetpace_limit, le)", panel)
			}
		}
	}
}

// Three crawler workers, other calls and the exporter, scraped by a real Prometheus: each query of
// the dashboard returns data, sums equal what the provider has counted, and each alert fires by
// the fault that it is about, and resolves.
func TestPrometheus(t *testing.T) {
	own, err := scrape.Process(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	s := newScene(t, own)
	o := newOthers(s)

	s.eventually("crawling", func() bool { return s.sum(`fleetpace_calls_total{fleetpace_limit="crawl/crawl"}`) > 50 })
	s.eventually("calls wait", func() bool { return s.sum(`fleetpace_queued_calls`) > 0 })

	// The last sample of each worker, also of one whose last scrape has failed.
	const passed = `last_over_time(fleetpace_calls_total{fleetpace_limit="crawl/crawl",fleetpace_result=~"at_once|waited"}[10s])`
	const unused = `last_over_time(fleetpace_turns_unused_total{fleetpace_limit="crawl/crawl"}[10s])`
	// Tasks that were put back come when the pause is over, so it is short, and prolonged until all
	// is seen.
	var paused time.Time
	pause := func() { s.run("pause", "crawl/crawl", "--for", "12s", "--reason", "test"); paused = time.Now() }
	inPause := func(what string, holds func() bool) {
		s.eventually(what, func() bool {
			if time.Since(paused) > 4*time.Second {
				pause()
			}
			return holds()
		})
	}
	o.refuses.Store(true)
	o.hold()
	o.crowd()
	s.eventually("FleetpaceNothingRuns fires", func() bool { return s.fires("FleetpaceNothingRuns") })
	o.second.Release() // calls go on with the other slot
	pause()
	made := func() float64 { return s.sum(passed) - s.sum(unused) }
	inPause("sums over workers equal what the site has counted", func() bool { return made() == float64(s.requests.Load()) })
	pause()
	time.Sleep(2 * time.Second) // scrapes
	require.InDelta(t, float64(s.requests.Load()), made(), 0, "and it stays so while the limit is paused")
	t.Logf("the site has counted %d requests, and so have the workers", s.requests.Load())
	for _, alert := range []string{"FleetpaceProviderRefuses", "FleetpaceSlotHeldTooLong", "FleetpaceQueueTooLong", "FleetpaceLimitHardlyUsed"} {
		s.eventually(alert+" fires", func() bool { return s.fires(alert) })
	}
	o.refuses.Store(false)
	o.leave()
	s.eventually("FleetpaceNothingRuns resolves", func() bool { return !s.fires("FleetpaceNothingRuns") })
	for panel, exprs := range queries(t) {
		for _, expr := range exprs {
			s.eventually("data for "+panel+": "+expr, func() bool { return len(s.query(expr)) > 0 })
		}
	}
	o.held.Release()
	s.redis.Kill()
	for _, alert := range []string{"FleetpaceRedisAway", "FleetpaceFleetUnknown"} {
		s.eventually(alert+" fires", func() bool { return s.fires(alert) })
	}
	s.redis.Start()
	for _, alert := range alertsOf(t) {
		s.eventually(alert+" resolves", func() bool { return !s.fires(alert) })
	}
}

// others are calls of this process, besides the crawl.
type others struct {
	*scene
	refuses atomic.Bool
	slots   *reserve.Limiter
	held    *reserve.Reservation
	second  *reserve.Reservation
	both    *reserve.Joint
	waiting sync.WaitGroup
	end     context.CancelFunc
}

// newOthers calls a provider by package transport, all the time.
func newOthers(s *scene) *others {
	o := &others{scene: s}
	options, err := redis.ParseURL(s.redis.URL())
	require.NoError(s, err)
	client := redis.NewClient(options)
	s.Cleanup(func() { _ = client.Close() })
	make := func(name string, limit reserve.Limit) *reserve.Limiter {
		l, err := reserve.New(client, reserve.Config{Name: name, Group: "others", Limit: limit})
		require.NoError(s, err)
		s.Cleanup(func() { _ = l.Close() })
		return l
	}
	o.slots = make("slots", reserve.Concurrent(2))
	o.both, err = reserve.All(make("fast", reserve.PerSecond(100)), make("slow", reserve.PerSecond(1)))
	require.NoError(s, err)

	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if o.refuses.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	s.Cleanup(api.Close)
	through, err := transport.New(transport.Config{Limiter: make("api", reserve.PerSecond(20)), MaxPause: time.Second})
	require.NoError(s, err)
	tokens, err := reserve.New(client, reserve.Config{Name: "tokens", Group: "others", Limit: reserve.PerSecond(1000).Burst(100), Settles: true})
	require.NoError(s, err)
	s.Cleanup(func() { _ = tokens.Close() })
	calls, stop := context.WithCancel(s.Context())
	var busy sync.WaitGroup
	s.Cleanup(func() { stop(); busy.Wait() })
	for range 3 {
		busy.Go(func() {
			for calls.Err() == nil {
				get, err := http.NewRequestWithContext(calls, http.MethodGet, api.URL, nil)
				if err != nil {
					return
				}
				if answer, err := (&http.Client{Transport: through}).Do(get); err == nil {
					_ = answer.Body.Close()
				}
				if call, err := tokens.Acquire(calls, 10); err == nil {
					_ = call.Settle(calls, 8)
				}
				if held, err := o.slots.Acquire(calls, 1); err == nil {
					held.Release()
				}
			}
		})
	}
	return o
}

// hold takes both slots, for long.
func (o *others) hold() {
	for _, slot := range []**reserve.Reservation{&o.held, &o.second} {
		var err error
		*slot, err = o.slots.Acquire(o.Context(), 1)
		require.NoError(o, err)
	}
}

// crowd lets calls wait for a slow limit and a fast one, which they hardly use.
func (o *others) crowd() {
	var ctx context.Context
	ctx, o.end = context.WithCancel(o.Context())
	for range 200 {
		o.waiting.Go(func() { _ = o.both.Wait(ctx) })
	}
}

// leave lets them give up.
func (o *others) leave() {
	o.end()
	o.waiting.Wait()
}

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/internal/inprocess"
)

// teller is a Base whose answers tell a limit that may change.
type teller struct {
	mu     sync.Mutex
	header http.Header
}

// perMinute tells that many requests per minute, in a bucket.
func (p *teller) perMinute(n int) {
	p.tell("Anthropic-Ratelimit-Requests-Limit", fmt.Sprint(n))
}

func (p *teller) tell(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = http.Header{}
	p.header.Set(name, value)
}

func (p *teller) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &http.Response{StatusCode: 200, Header: p.header.Clone(), Request: r}, nil
}

// fleet is a limiter that all processes of a fleet share and can look at, with
// the expiry of what is set.
type fleet struct {
	*inprocess.Limiter
	mu   sync.Mutex
	ends *time.Timer
}

func (f *fleet) SetLimit(ctx context.Context, limit reserve.Limit, expiry time.Duration) error {
	if err := f.Limiter.SetLimit(ctx, limit, expiry); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.ends = time.AfterFunc(expiry, func() { f.Restore() })
	return nil
}

func (f *fleet) stop() {
	if f.ends != nil {
		f.ends.Stop()
	}
}

func (f *fleet) State(context.Context) (reserve.State, error) {
	return reserve.State{Rate: f.Now().Rate(), Burst: f.Now().MaxBurst()}, nil
}

func call(t *testing.T, paced http.RoundTripper) {
	t.Helper()
	require.Equal(t, 200, do(t, paced, newRequest(t, "GET", "http://api.test", nil)))
}

// TestTightensAtOnce: a lower limit counts from the answer that tells it on, a
// higher one is no reason to go above the limiter's own.
func TestTightensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		limiter := inprocess.New(reserve.PerSecond(10).Burst(5))
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true})
		p.perMinute(6000)
		call(t, paced)
		assert.Empty(t, limiter.Changes(), "the provider allows more")
		p.perMinute(300)
		call(t, paced)
		p.perMinute(60)
		call(t, paced)
		call(t, paced)
		changes := limiter.Changes()
		require.Len(t, changes, 2)
		assert.InDelta(t, 5, changes[0].Limit.Rate(), 1e-9)
		assert.InDelta(t, 1, changes[1].Limit.Rate(), 1e-9)
		assert.Equal(t, 5, changes[1].Limit.MaxBurst())
		assert.Equal(t, time.Hour, changes[0].Expiry)
	})
}

// TestLoosensSlowly: towards a higher limit it takes steps of a tenth, a minute
// apart, up to what is told or the ceiling.
func TestLoosensSlowly(t *testing.T) {
	for _, c := range []struct {
		name    string
		ceiling reserve.Limit
		told    int // per minute
		want    float64
	}{
		{"up to what is told", reserve.Limit{}, 300, 5},
		{"up to the limiter's own", reserve.Limit{}, 6000, 10},
		{"up to the ceiling", reserve.PerSecond(20), 6000, 20},
		{"up to what is told, below the ceiling", reserve.PerSecond(20), 900, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &teller{}
				limiter := inprocess.New(reserve.PerSecond(10))
				paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true, Ceiling: c.ceiling})
				p.perMinute(120)
				call(t, paced)
				p.perMinute(c.told)
				for range 60 * 60 / 5 { // an hour, a call each 5 s
					call(t, paced)
					time.Sleep(5 * time.Second)
				}
				changes := limiter.Changes()
				assert.InDelta(t, 2, changes[0].Limit.Rate(), 1e-9)
				for i := range changes[1:] {
					before, after := changes[i], changes[i+1]
					assert.LessOrEqual(t, after.Limit.Rate(), before.Limit.Rate()*1.1+1e-9)
					assert.GreaterOrEqual(t, after.At.Sub(before.At), time.Minute)
				}
				assert.InDelta(t, c.want, limiter.Now().Rate(), 1e-6)
			})
		})
	}
}

// TestFleetLoosensSlowly: many processes that share a limit and hear the same
// raise it no faster than one would, and keep it from lapsing.
func TestFleetLoosensSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 10
		p := &teller{}
		shared := &fleet{Limiter: inprocess.New(reserve.PerSecond(50))}
		defer shared.stop()
		p.perMinute(600)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Hour)
		defer stop()
		var wg sync.WaitGroup
		for i := range processes {
			paced := newTransport(t, transport.Config{Limiter: shared, Base: p, Learn: true})
			wg.Go(func() {
				for ctx.Err() == nil {
					call(t, paced)
					time.Sleep(time.Duration(10_000+137*i) * time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Hour)
		for _, c := range shared.Changes() {
			assert.InDelta(t, 10, c.Limit.Rate(), 1e-9)
		}
		assert.InDelta(t, 10, shared.Now().Rate(), 1e-9, "it is told again before it lapses")
		before := len(shared.Changes())
		t.Logf("%d processes: set %d times in two hours", processes, before)
		p.perMinute(1200)
		time.Sleep(59 * time.Minute)
		stop()
		wg.Wait()
		last, rate := time.Time{}, 10.0
		for _, c := range shared.Changes()[before:] {
			if now := c.Limit.Rate(); now > rate*1.001 {
				assert.LessOrEqual(t, now, rate*1.1+1e-9)
				assert.GreaterOrEqual(t, c.At.Sub(last), time.Minute)
				last, rate = c.At, now
			}
		}
		assert.InDelta(t, 20, rate, 1e-6)
	})
}

// TestToldLapses: an hour after the last process told, the limiter's own limit
// counts again.
func TestToldLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		shared := &fleet{Limiter: inprocess.New(reserve.PerSecond(50))}
		defer shared.stop()
		paced := newTransport(t, transport.Config{Limiter: shared, Base: p, Learn: true})
		p.perMinute(60)
		call(t, paced)
		assert.InDelta(t, 1, shared.Now().Rate(), 1e-9)
		time.Sleep(2 * time.Hour)
		assert.InDelta(t, 50, shared.Now().Rate(), 1e-9)
		call(t, paced)
		assert.InDelta(t, 1, shared.Now().Rate(), 1e-9)
	})
}

// TestWhatIsLearned: which answers tell a limit, and which limit that is.
func TestWhatIsLearned(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit       reserve.Limit
		turn        transport.Turn
		field, told string
		want        string // empty: nothing
	}{
		{"a window that does not say how long it is", reserve.PerSecond(10), transport.Turn{}, "X-RateLimit-Limit", "60", ""},
		{"none", reserve.PerSecond(10), transport.Turn{}, "X-Other", "60", ""},
		{"a window", reserve.PerSecond(10), transport.Turn{}, "RateLimit-Policy", `"a";q=120;w=60`, "2/s"},
		{"the strictest of several", reserve.PerSecond(10), transport.Turn{}, "RateLimit-Policy", `"a";q=5;w=1, "b";q=120;w=60, "c";q=1;w=1;qu="tokens"`, "2/s"},
		{"by name", reserve.PerSecond(10), transport.Turn{Window: "c"}, "RateLimit-Policy", `"a";q=5;w=1, "c";q=1;w=1;qu="tokens"`, "1/s"},
		{"a burst comes out of a window", reserve.PerSecond(10).Burst(21), transport.Turn{}, "RateLimit-Policy", `"a";q=120;w=100`, "1/s burst 21"},
		{"up to half of it", reserve.PerSecond(10).Burst(90), transport.Turn{}, "RateLimit-Policy", `"a";q=100;w=50`, "1/s burst 90"},
		{"a burst of more than the window", reserve.PerSecond(10).Burst(500), transport.Turn{}, "RateLimit-Policy", `"a";q=100;w=50`, "1/s burst 100"},
		{"a bucket bears the burst", reserve.PerSecond(10).Burst(21), transport.Turn{}, "Anthropic-RateLimit-Requests-Limit", "60", "1/s burst 21"},
		{"next to nothing is one in MaxPause", reserve.PerSecond(10), transport.Turn{}, "RateLimit-Policy", `"a";q=0.001;w=999999999`, "0.01/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &teller{}
			p.tell(c.field, c.told)
			limiter := inprocess.New(c.limit)
			c.turn.Limiter = limiter
			paced := newTransport(t, transport.Config{Base: p, Learn: true, MaxPause: 100 * time.Second,
				Choose: func(*http.Request) (transport.Turn, error) { return c.turn, nil }})
			call(t, paced)
			if c.want == "" {
				assert.Empty(t, limiter.Changes())
				return
			}
			assert.Equal(t, c.want, limiter.Now().String())
		})
	}
}

// TestNothingIsLearned: without Learn, or by a limiter that can not be adjusted.
func TestNothingIsLearned(t *testing.T) {
	p := &teller{}
	p.perMinute(1)
	limiter := inprocess.New(reserve.PerSecond(10).Burst(5))
	call(t, newTransport(t, transport.Config{Limiter: limiter, Base: p}))
	call(t, newTransport(t, transport.Config{Limiter: plain{limiter}, Base: p, Learn: true}))
	assert.Empty(t, limiter.Changes())
}

// TestLearnerFails: a limiter that can not be told is told again, a second later
// and not at each answer.
func TestLearnerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &teller{}
		p.perMinute(60)
		limiter := inprocess.New(reserve.PerSecond(10).Burst(10))
		limiter.Fail(errors.New("redis is away"))
		var log bytes.Buffer
		paced := newTransport(t, transport.Config{Limiter: limiter, Base: p, Learn: true, Logger: logTo(&log)})
		for range 3 {
			call(t, paced)
		}
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("redis is away")))
		limiter.Fail(nil)
		time.Sleep(time.Second)
		call(t, paced)
		assert.InDelta(t, 1, limiter.Now().Rate(), 1e-9)
		assert.Contains(t, log.String(), "from=10/s to=\"1/s burst 10\"")
	})
}

// TestRefusesNothingOnceTold: callers at five times the provider's limit learn it
// from its first answer, and none of the others is refused.
func TestRefusesNothingOnceTold(t *testing.T) {
	const calls, perSecond = 400, 200
	judge := provider.New(provider.TokenBucket(perSecond, 40)) // 200 ms for the machine
	api := httptest.NewServer(judge.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=60`, perSecond*60))
	})))
	t.Cleanup(api.Close)
	limiter := inprocess.New(reserve.PerSecond(1000))
	paced := newTransport(t, transport.Config{Limiter: limiter, Learn: true})
	assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", api.URL, nil)))
	var group errgroup.Group
	group.SetLimit(50)
	for range calls - 1 {
		group.Go(func() error {
			assert.Equal(t, 200, do(t, paced, newRequest(t, "GET", api.URL, nil)))
			return nil
		})
	}
	require.NoError(t, group.Wait())
	history := judge.History()
	t.Logf("%d calls took %v", len(history), history[len(history)-1].At.Sub(history[0].At))
	assert.Len(t, history, calls)
	assert.Len(t, limiter.Changes(), 1)
}

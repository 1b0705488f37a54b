package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/transport"
	asynqworker "github.com/fleetpace/fleetpace/worker"
)

// packages are the packages that grant turns, and how a process of each starts.
var packages = []struct {
	name string
	open func(*kindsFleet) caller
	stay bool
}{
	{"reserve", openReserve, true},
	{"limits", openLimits, true},
	{"transport", openTransport, true},
	{"inbound", openInbound, true},
	{"worker", openWorker, false},
	{"scheduler", openScheduler, false},
}

// direct uses limits without another package.
type direct struct {
	reserve.Turns
	f     *kindsFleet
	wait  func(ctx context.Context, n int) error
	allow func(ctx context.Context, n int) (bool, error)
	hold  func(ctx context.Context, n int) (*reserve.Reservation, error)
	look  func(ctx context.Context) ([]reserve.State, error)
}

func newDirect(f *kindsFleet, turns reserve.Turns) direct {
	if l, ok := turns.(*reserve.Limiter); ok {
		return direct{turns, f, l.WaitN, l.AllowN, l.ReserveN, func(ctx context.Context) ([]reserve.State, error) {
			s, err := l.State(ctx)
			return []reserve.State{s}, err
		}}
	}
	j := turns.(*reserve.Joint)
	each := func(n int) []int { return slices.Repeat([]int{n}, len(j.Limits())) }
	return direct{
		turns, f,
		func(ctx context.Context, n int) error { return j.Wait(ctx, each(n)...) },
		func(ctx context.Context, n int) (bool, error) { return j.Allow(ctx, each(n)...) },
		func(ctx context.Context, n int) (*reserve.Reservation, error) { return j.Reserve(ctx, each(n)...) },
		j.States,
	}
}

// do makes n calls, which wait for their own turns.
func (d direct) do(n int, call func() error) {
	for range n {
		go func() {
			if err := call(); d.f.Context().Err() == nil {
				assert.NoError(d.f, err)
			}
		}()
	}
}

func (d direct) call(n int) {
	d.do(n, func() error {
		if err := d.wait(d.f.Context(), 1); err != nil {
			return err
		}
		d.f.made(1)
		return nil
	})
}

func (d direct) settled(cost, used int) {
	r, err := d.hold(d.f.Context(), cost)
	require.NoError(d.f, err)
	require.NoError(d.f, r.Wait(d.f.Context()))
	d.f.made(used)
	require.NoError(d.f, r.Settle(d.f.Context(), slices.Repeat([]int{used}, len(d.Limits()))...))
}

func (d direct) allowed() bool {
	ok, err := d.allow(d.f.Context(), 1)
	require.NoError(d.f, err)
	if ok {
		d.f.made(1)
	}
	return ok
}

func (d direct) reserve() *reserve.Reservation {
	r, err := d.hold(d.f.Context(), 1)
	require.NoError(d.f, err)
	return r
}

func (d direct) pause(pause time.Duration) string {
	require.NoError(d.f, d.Pause(d.f.Context(), pause, "the API wants it"))
	return "the API wants it"
}

func (d direct) states() []reserve.State {
	states, err := d.look(d.f.Context())
	require.NoError(d.f, err)
	require.Len(d.f, states, len(d.f.Limits))
	return states
}

func openReserve(f *kindsFleet) caller { return newDirect(f, f.Turns(f.Client(), f.Kind)) }

// openLimits reads the limits from a file.
func openLimits(f *kindsFleet) caller {
	var file strings.Builder
	file.WriteString("limits:\n")
	var names []string
	for i, l := range f.Limits {
		names = append(names, fmt.Sprint("limit-", i))
		fmt.Fprintf(&file, "  - {name: %s, limit: %q, kind: %v, group: g, settles: %v, key: \"{tenant}\"}\n",
			names[i], l, l.Kind(), f.Settles)
	}
	path := filepath.Join(f.TempDir(), "limits.yaml")
	require.NoError(f, os.WriteFile(path, []byte(file.String()), 0o600))
	set, err := limits.Load(f.Client(), path, reserve.Config{})
	require.NoError(f, err)
	f.Cleanup(func() { _ = set.Close() })
	all, err := set.All(map[string]string{"tenant": "acme"}, names...)
	require.NoError(f, err)
	for i, l := range all.Limits() {
		require.Equal(f, f.Limits[i], l.Limit())
	}
	return newDirect(f, all)
}

// client sends requests to the API, whose responses may pause its limits.
type client struct {
	direct
	http.RoundTripper
}

func openTransport(f *kindsFleet) caller {
	turns := f.Turns(f.Client(), f.Kind)
	config := transport.Config{Limiter: turns, Base: remote{f}}
	if f.Settles {
		config.Limiter = nil
		config.Choose = func(r *http.Request) (transport.Need, error) {
			cost, _ := strconv.Atoi(r.Header.Get("Cost"))
			return transport.Need{Limiter: turns, Cost: cost}, nil
		}
		config.Used = func(r *http.Response) []int { return slices.Repeat([]int{used(r.Request)}, len(f.Limits)) }
	}
	paced, err := transport.New(config)
	require.NoError(f, err)
	return client{newDirect(f, turns), paced}
}

// remote is the API that client calls.
type remote struct{ f *kindsFleet }

func (a remote) RoundTrip(r *http.Request) (*http.Response, error) {
	a.f.made(used(r))
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: http.NoBody}
	if rest := r.Header.Get("Rest"); rest != "" {
		answer.StatusCode = http.StatusTooManyRequests
		answer.Header.Set("Retry-After", rest)
	}
	return answer, nil
}

// used is how many permits a request uses.
func used(r *http.Request) int {
	n, _ := strconv.Atoi(r.Header.Get("Used"))
	return max(n, 1)
}

func (c client) send(headers ...string) error {
	r, err := http.NewRequestWithContext(c.f.Context(), http.MethodGet, "http://api.test", nil)
	if err != nil {
		return err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (c client) call(n int) { c.do(n, func() error { return c.send() }) }

func (c client) settled(cost, used int) {
	require.NoError(c.f, c.send("Cost", strconv.Itoa(cost), "Used", strconv.Itoa(used)))
}

func (c client) pause(d time.Duration) string {
	require.NoError(c.f, c.send("Rest", strconv.Itoa(int(d.Seconds()))))
	return "api.test answered 429"
}

// site is the API itself. It lets requests wait, or refuses them.
type site struct {
	direct
	patient, impatient http.Handler
}

func openInbound(f *kindsFleet) caller {
	turns := f.Turns(f.Client(), f.Kind)
	with := func(config inbound.Config) http.Handler {
		limited, err := inbound.Middleware(turns, config)
		require.NoError(f, err)
		return limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.made(1) }))
	}
	return site{newDirect(f, turns), with(inbound.Config{MaxWait: time.Hour}), with(inbound.Config{})}
}

func (s site) get(of http.Handler) int {
	w := httptest.NewRecorder()
	of.ServeHTTP(w, httptest.NewRequestWithContext(s.f.Context(), http.MethodGet, "/", nil))
	return w.Code
}

func (s site) call(n int) {
	s.do(n, func() error {
		if code := s.get(s.patient); code != http.StatusOK {
			return fmt.Errorf("answered %d", code)
		}
		return nil
	})
}

func (s site) allowed() bool {
	code := s.get(s.impatient)
	require.Contains(s.f, []int{http.StatusOK, http.StatusTooManyRequests}, code)
	return code == http.StatusOK
}

// queue is asynq's queue, and a process that works on it.
type queue struct {
	direct
	enqueue func(*asynq.Task) error
}

func openWorker(f *kindsFleet) caller {
	turns := f.Turns(f.Client(), f.Kind)
	config := asynqworker.Config{Logger: slog.New(slog.DiscardHandler)}
	if f.Settles {
		config.Used = func(_ context.Context, task *asynq.Task, _ error) []int {
			return slices.Repeat([]int{usedBy(task)}, len(f.Limits))
		}
	}
	w, err := asynqworker.New(turns, config)
	require.NoError(f, err)
	f.Serve(w, asynqtest.Config(10), func(_ context.Context, task *asynq.Task) error {
		f.made(usedBy(task))
		return nil
	})
	tasks := asynq.NewClientFromRedisClient(f.Client())
	return queue{newDirect(f, turns), func(task *asynq.Task) error {
		_, err := tasks.Enqueue(task, asynq.Queue(asynqtest.Queue))
		return err
	}}
}

// openScheduler books tasks when they are enqueued.
func openScheduler(f *kindsFleet) caller {
	q := openWorker(f).(queue)
	s, err := scheduler.New(asynq.NewClientFromRedisClient(f.Client()), q.Turns, scheduler.Config{})
	require.NoError(f, err)
	q.enqueue = func(task *asynq.Task) error {
		_, err := s.Enqueue(f.Context(), task, asynq.Queue(asynqtest.Queue))
		return err
	}
	return q
}

// usedBy is how many permits a task uses.
func usedBy(task *asynq.Task) int {
	n, _ := strconv.Atoi(string(task.Payload()))
	return n
}

func (q queue) call(n int) {
	for range n {
		require.NoError(q.f, q.enqueue(asynq.NewTask("call", []byte("1"))))
	}
}

func (q queue) settled(cost, used int) {
	before := len(q.f.Calls())
	headers := asynqworker.Need{Cost: cost}.Headers()
	require.NoError(q.f, q.enqueue(asynq.NewTaskWithHeaders("call", []byte(strconv.Itoa(used)), headers)))
	q.f.Until(before+1, late)
	time.Sleep(10 * time.Millisecond)
}

package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/internal/ledger"
)

// Versions of fleetpace that a worker process may have.
const (
	earlier = "earlier" // it runs the scripts of package frozen
	v02     = "v0.2"    // it runs those of v0.2
)

// heartbeat is a heartbeat that Redis has carried out between two moments.
type heartbeat struct{ Sent, Answered time.Time }

// workV02 calls the API as a process of v0.2, until it is interrupted.
func (j job) workV02(client redis.UniversalClient) error {
	p := frozen.V02{Client: client, Prefix: j.Prefix, Name: "api", Process: "old", Interval: 50 * time.Millisecond, Burst: 1}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r report
	for ctx.Err() == nil {
		if sent := time.Now(); len(r.Beats) == 0 || sent.Sub(r.Beats[len(r.Beats)-1].Sent) >= time.Second {
			if err := p.Beat(context.Background(), false); err != nil {
				return err
			}
			r.Beats = append(r.Beats, heartbeat{sent, time.Now()})
		}
		granted, err := p.Ask(context.Background())
		if err != nil {
			return err
		}
		if granted {
			if err := reach(j.API); err != nil {
				return err
			}
			r.Calls++
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := p.Beat(context.Background(), true); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// The processes of a fleet are replaced one after the other, by processes of another version: upgraded, and back. Together
// they keep the limit, all of them call, and no call fails. The figures say what a stop costs, whose calls give up turns that were
// granted, and how much is used besides.
func TestMixedProcesses(t *testing.T) {
	long(t, "takes 8 s")
	for name, versions := range map[string][2]string{"upgrade": {earlier, ""}, "back": {"", earlier}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFleetScene(t, 200, 20)
			begin := func(version string) *worker {
				j := s.job
				j.Version = version
				return startWorker(t, j)
			}
			var fleet []*worker
			for range 3 {
				fleet = append(fleet, begin(versions[0]))
			}
			allCall(t, s.ledger, len(fleet))
			var stops []time.Time
			for i := range fleet {
				old := fleet[i]
				fleet[i] = begin(versions[1])
				allCall(t, s.ledger, len(fleet)+i+1)
				s.more(60)
				stops = append(stops, time.Now())
				r := old.stop()
				require.Empty(t, r.Errors)
				require.Positive(t, r.Calls)
				s.more(60)
			}
			for _, w := range fleet {
				r := w.stop()
				require.Empty(t, r.Errors)
				require.Positive(t, r.Calls)
			}
			turns, cost := turnsIn(t, s.ledger), time.Duration(0)
			for _, at := range stops {
				const ahead = 500 * time.Millisecond // turns are granted that early at most
				after, took := ledger.During(turns, at, at.Add(ahead)), ahead
				if len(after) > 0 { // else this machine has stood still for longer
					took = after[len(after)-1].Moment().Sub(at)
				}
				cost += max(0, took-time.Duration(float64(len(after))/s.limit.Rate*float64(time.Second)))
			}
			took := turns[len(turns)-1].Moment().Sub(turns[0].Moment()) - cost
			s.judge(map[string]any{
				"processes": "3 of each version", "ms_lost_by_each_stop": ms(cost / time.Duration(len(stops))),
				"utilization_besides": round(float64(len(turns)-1) / took.Seconds() / s.limit.Rate),
			})
		})
	}
}

// Processes of both versions share slots: never more calls run at once.
func TestMixedProcessesShareSlots(t *testing.T) {
	long(t, "takes 3 s")
	t.Parallel()
	const slots = 5
	var running, most, calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		now := running.Add(1)
		for top := most.Load(); now > top && !most.CompareAndSwap(top, now); top = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		calls.Add(1)
		running.Add(-1)
	}))
	t.Cleanup(server.Close)
	s := newFleetScene(t, 1, 10)
	s.job.Limit, s.job.API = "5 at once", server.URL
	var fleet []*worker
	for _, version := range []string{earlier, "", earlier, ""} {
		j := s.job
		j.Version = version
		fleet = append(fleet, startWorker(t, j))
	}
	allCall(t, s.ledger, len(fleet))
	before := calls.Load()
	require.Eventually(t, func() bool { return calls.Load() > before+300 }, liveness, 10*time.Millisecond)
	for _, w := range fleet {
		r := w.stop()
		require.Empty(t, r.Errors)
		require.Positive(t, r.Calls, "every process has its share")
	}
	require.LessOrEqual(t, most.Load(), int64(slots))
}

// A process of v0.2 runs, and a new one is started: its calls fail and say what to do, until the old one is gone.
func TestV02BesideANewProcess(t *testing.T) {
	long(t, "takes 6 s")
	t.Parallel()
	s := newFleetScene(t, 20, 3)
	j := s.job
	j.Version = v02
	old := startWorker(t, j)
	s.more(10)
	j = s.job
	j.Failed = true
	fresh := startWorker(t, j)
	require.Eventually(t, func() bool { return s.failed.Load() > 0 }, liveness, 10*time.Millisecond, "calls of the new process fail")
	s.more(40)                                         // of the old one, for two seconds
	beside, before := turnsIn(t, s.ledger), old.stop() // turns of the new one
	require.Positive(t, before.Calls)
	require.NotEmpty(t, before.Beats)
	const silence = 3 * time.Second
	for _, turn := range beside {
		require.False(t, turn.Told.IsZero(), "Redis did not give it: %v", turn)
		for _, beat := range before.Beats {
			if beat.Sent.After(turn.Told.Add(-silence)) && beat.Answered.Before(turn.Told) {
				t.Fatalf("the new process had a turn at %v, and Redis had a heartbeat of the old one between %v and %v", turn.Told, beat.Sent, beat.Answered)
			}
		}
	}
	s.more(20)
	r := fresh.stop()
	require.Positive(t, r.Calls)
	require.NotEmpty(t, r.Errors)
	for _, e := range r.Errors {
		require.Contains(t, e, "processes of fleetpace v0.2 use the limit")
		require.Contains(t, e, "stop them first")
	}
	t.Logf("MEASURE %d calls of the new process failed, such as: %s", len(r.Errors), r.Errors[0])
}

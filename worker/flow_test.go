package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// send adds tasks of a flow, whose payloads begin with its name.
func (f *fleet) send(n int, turn worker.Need) {
	f.Helper()
	for i := range n {
		task := asynq.NewTaskWithHeaders("call", []byte(turn.Flow+" "+strconv.Itoa(i)+" "+strconv.FormatInt(time.Now().UnixMicro(), 10)), turn.Headers())
		_, err := f.tasks.Enqueue(task, asynq.Queue(asynqtest.Queue))
		require.NoError(f, err)
	}
}

// waits are how long the tasks of a flow waited, the shortest first.
func (f *fleet) waits(flow string) (waits []time.Duration) {
	for _, c := range f.Calls() {
		words := strings.Fields(c.Payload)
		micros, _ := strconv.ParseInt(words[2], 10, 64)
		if words[0] == flow {
			waits = append(waits, f.Start.Add(c.At).Sub(time.UnixMicro(micros)))
		}
	}
	slices.Sort(waits)
	return waits
}

// One tenant has a backlog of minutes, and ten others come with a task each second: they do not
// notice, the limit is used to the full, and tasks of the backlog come into a worker a few
// times at most.
func TestAFloodOfTasks(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const rate, flood, others, seconds = 20, 300, 10, 20
		f.Allow("api", asynqtest.Bucket(rate, 1))
		for range 4 {
			f.serve(f.limiter(reserve.PerSecond(rate)), worker.Config{WaitingRoom: 200}, 20, "api")
		}
		f.send(flood, worker.Need{Flow: "flood"})
		time.Sleep(3 * time.Second)
		for range seconds {
			for i := range others {
				f.send(1, worker.Need{Flow: "tenant" + strconv.Itoa(i)})
				time.Sleep(time.Second / others)
			}
		}
		took := f.Await(flood+others*seconds, 2*time.Minute)
		f.unharmed()
		entries := float64(f.Entries()) / (flood + others*seconds)
		used := float64(flood+others*seconds) / took.Seconds() / rate
		worst := time.Duration(0)
		for i := range others {
			waits := f.waits("tenant" + strconv.Itoa(i))
			require.Len(t, waits, seconds)
			worst = max(worst, waits[seconds-1])
		}
		t.Logf("MEASURE used %.3f, entries %.2f, others wait %v at most", used, entries, worst)
		require.LessOrEqual(t, worst, 1500*time.Millisecond)
		require.GreaterOrEqual(t, used, 0.97)
		require.LessOrEqual(t, entries, 5.0)
	})
}

// Weights and urgency of tasks count.
func TestWeightsOfTasks(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const rate = 20
		f.Allow("api", asynqtest.Bucket(rate, 1))
		l := f.limiter(reserve.PerSecond(rate))
		w, err := worker.New(l, worker.Config{Logger: quiet})
		require.NoError(t, err)
		f.Serve(w, asynqtest.Config(20), func(_ context.Context, task *asynq.Task) error {
			f.Call("api", 1)
			f.Ran(string(task.Payload()), 0)
			return nil
		})
		f.send(100, worker.Need{Flow: "light"})
		f.send(200, worker.Need{Flow: "heavy", Weight: 3})
		time.Sleep(5 * time.Second)
		f.send(1, worker.Need{Flow: "person", Urgent: true})
		f.Until(220, time.Minute)
		of := map[string]int{}
		for _, c := range f.Calls()[20:] {
			of[strings.Fields(c.Payload)[0]]++
		}
		t.Logf("MEASURE %v, the urgent one waits %v", of, f.waits("person"))
		require.InDelta(t, 3, float64(of["heavy"])/float64(of["light"]), 0.3, fmt.Sprint(of))
		require.Less(t, f.waits("person")[0], time.Second)
	})
}

// Ten tenants are busy all the time, and one has a backlog besides: as others come before its
// tasks all the time, those are told too early a moment, and come again, a few times at most.
// Those whose turns are near stay: where others have enough for a while, they use the limit.
func TestAFloodBesideBusyTenants(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const rate, flood, others, seconds, total = 20, 40, 10, 25, 40 + 2*10*25
		f.Allow("api", asynqtest.Bucket(rate, 1))
		var entries atomic.Int64
		counted := func(ctx context.Context, task *asynq.Task) (worker.Need, error) {
			turn, err := worker.FromHeaders(ctx, task)
			if turn.Flow == "flood" {
				entries.Add(1)
			}
			return turn, err
		}
		for range 4 {
			f.serve(f.limiter(reserve.PerSecond(rate)), worker.Config{WaitingRoom: 200, Need: counted}, 20, "api")
		}
		f.send(flood, worker.Need{Flow: "flood"})
		for range seconds {
			for i := range others {
				f.send(2, worker.Need{Flow: "tenant" + strconv.Itoa(i)})
			}
			time.Sleep(time.Second)
		}
		used := total / f.Await(total, 3*time.Minute).Seconds() / rate
		f.unharmed()
		each := float64(entries.Load()) / flood
		t.Logf("MEASURE used %.3f, entries of the flood %.2f", used, each)
		require.GreaterOrEqual(t, used, 0.97)
		require.LessOrEqual(t, each, 5.0)
	})
}

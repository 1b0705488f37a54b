package riverpace_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/riverpace"
)

// table is a simulation of River's table of jobs: workers take the next job at each look.
type table struct {
	mu      sync.Mutex
	jobs    int
	next    int64               // the first job that nobody has taken
	snoozed map[int64]time.Time // until when
	calls   []time.Time
}

// take returns the job that has been due for the longest time, or 0.
func (b *table) take() (id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next < int64(b.jobs) {
		b.next++
		return b.next
	}
	first := time.Now()
	for job, until := range b.snoozed {
		if !until.After(first) {
			id, first = job, until
		}
	}
	delete(b.snoozed, id)
	return id
}

// work takes jobs until the context ends.
func (b *table) work(ctx context.Context, j jobs, poll time.Duration) {
	for ctx.Err() == nil {
		id := b.take()
		if id == 0 {
			time.Sleep(poll)
			continue
		}
		err := j.work(ctx, id, func(context.Context) error {
			b.mu.Lock()
			b.calls = append(b.calls, time.Now())
			b.mu.Unlock()
			time.Sleep(latency)
			return nil
		})
		var snooze *river.JobSnoozeError
		if errors.As(err, &snooze) {
			b.mu.Lock()
			b.snoozed[id] = time.Now().Add(snooze.Duration)
			b.mu.Unlock()
		}
		time.Sleep(poll)
	}
}

// The limit is used, whatever the backlog and the workers are. Workers may be full of waiting jobs, and
// jobs may come back behind a backlog that is still being worked through.
func TestTheLimitIsUsed(t *testing.T) {
	for name, of := range map[string]struct{ jobs, workers int }{
		"a backlog": {1_000, 100}, "few workers": {1_000, rate / 4}, "a large backlog": {2_500, 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const poll, length = 100 * time.Millisecond, 8 * time.Second
				server := reservetest.New(t)
				b := &table{jobs: of.jobs, snoozed: map[int64]time.Time{}}
				ctx, stop := context.WithTimeout(t.Context(), length)
				defer stop()
				var all sync.WaitGroup
				for range 2 {
					l := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerSecond(rate).Burst(burst)})
					j := paceEvery(t, poll, l, riverpace.Config{})
					for range of.workers {
						all.Go(func() { b.work(ctx, j, poll) })
					}
				}
				all.Wait()
				used := float64(len(b.calls)-burst) / rate / length.Seconds()
				t.Logf("MEASURE used %.3f", used)
				require.GreaterOrEqual(t, used, 0.9)
				require.LessOrEqual(t, used, 1.0)
			})
		})
	}
}

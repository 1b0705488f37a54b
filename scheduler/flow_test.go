package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

// bookAll enqueues tasks at once, and returns which turns they have: the first one is 0.
func bookAll(t *testing.T, s *scheduler.Scheduler, began time.Time, turns ...scheduler.Need) (places []int) {
	t.Helper()
	var items []scheduler.Item
	for _, turn := range turns {
		items = append(items, scheduler.Item{
			Task: asynq.NewTaskWithHeaders("call", nil, turn.Headers()), Options: []asynq.Option{asynq.Queue(asynqtest.Queue)},
		})
	}
	forecasts, err := s.EnqueueAll(t.Context(), items)
	require.NoError(t, err)
	for _, f := range forecasts {
		places = append(places, int(f.At.Sub(began).Round(interval)/interval))
	}
	return places
}

func flowScene(t *testing.T, do func(t *testing.T, s *scheduler.Scheduler, began time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		f := asynqtest.Open(t)
		l := f.Limiter(f.Client(), reserve.Config{Limit: reserve.Every(interval)})
		s, err := scheduler.New(asynq.NewClientFromRedisClient(f.Client()), l, scheduler.Config{})
		require.NoError(t, err)
		do(t, s, time.Now())
	})
}

// Tasks of several flows that are enqueued at once each stand in their own flow.
func TestFlowsOfOneBatch(t *testing.T) {
	flowScene(t, func(t *testing.T, s *scheduler.Scheduler, began time.Time) {
		var turns []scheduler.Need
		for range 50 {
			turns = append(turns, scheduler.Need{Flow: "many"})
		}
		for range 5 {
			turns = append(turns, scheduler.Need{Flow: "few"})
		}
		for i, place := range bookAll(t, s, began, turns...)[50:] {
			require.LessOrEqual(t, place, 2*(i+1), "every other turn is theirs")
		}
	})
}

// One urgent task does not make those urgent that are enqueued with it.
func TestAnUrgentTaskOfABatch(t *testing.T) {
	flowScene(t, func(t *testing.T, s *scheduler.Scheduler, began time.Time) {
		for range 10 {
			bookAll(t, s, began, scheduler.Need{Flow: "x"})
		}
		places := bookAll(t, s, began, scheduler.Need{Flow: "x", Urgent: true}, scheduler.Need{Flow: "x"}, scheduler.Need{Flow: "x"})
		require.LessOrEqual(t, places[0], 2)
		require.GreaterOrEqual(t, places[1], 10)
		require.GreaterOrEqual(t, places[2], 11)
	})
}

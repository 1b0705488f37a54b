package turn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

func TestHeadersTravel(t *testing.T) {
	for _, want := range []turn.Turn{{}, {Key: "shop 7: ümlaut", Cost: 12}, {Skip: true}, {Cost: 1}} {
		got, err := turn.FromHeaders(t.Context(), asynq.NewTaskWithHeaders("type", nil, want.Headers()))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := turn.FromHeaders(t.Context(), asynq.NewTask("type", nil))
	require.NoError(t, err)
	require.Equal(t, turn.Turn{}, got)
}

func TestBadHeadersAreNamed(t *testing.T) {
	for header, values := range map[string][]string{
		turn.CostHeader: {"", "0", "-1", "1.5", "many", "99999999999999999999"},
		turn.SkipHeader: {"", "perhaps"},
	} {
		for _, value := range values {
			_, err := turn.FromHeaders(t.Context(), asynq.NewTaskWithHeaders("type", nil, map[string]string{header: value}))
			require.ErrorContains(t, err, header)
			require.ErrorContains(t, err, `"`+value+`"`)
		}
	}
}

func TestIn(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is asked of it
	defer func() { _ = client.Close() }()
	limiter := func(name string) *reserve.Limiter {
		l, err := reserve.New(client, reserve.Config{Name: name, Limit: reserve.PerSecond(1)})
		require.NoError(t, err)
		return l
	}
	usual, other := limiter("usual"), limiter("other")
	for want, of := range map[string]turn.Turn{
		"usual": {}, "usual/k": {Key: "k", Cost: 1}, "other": {Limiter: other}, "other/k": {Limiter: other, Key: "k"},
	} {
		l, cost := of.In(usual)
		require.Equal(t, want, l.String())
		require.Equal(t, 1, cost)
	}
	_, cost := turn.Turn{Cost: 7}.In(usual)
	require.Equal(t, 7, cost)
}

// IDs of different waits differ, and are never longer than reserve allows.
func TestID(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := make(map[string]bool)
	for _, id := range []string{
		turn.ID("a", "b", 0), turn.ID("a", "b", 1), turn.ID("a", "0/b", 0), turn.ID("a", "c", 0), turn.ID("b", "b", 0),
		turn.ID("a", long, 0), turn.ID("a", long, 1), turn.ID("a", long+"y", 0), turn.ID(long, "b", 0),
	} {
		require.False(t, seen[id], id)
		require.LessOrEqual(t, len(id), 256)
		seen[id] = true
	}
	require.Equal(t, turn.ID("a", long, 0), turn.ID("a", long, 0))
}

// A task that is due in asynq a lead before its turn is in its worker before the
// limiter gives its turn away, and never has to go back because it came early.
func TestLeadAndPatience(t *testing.T) {
	const delayed, check, limiter = 5 * time.Second, time.Second, 500 * time.Millisecond
	lead := turn.Lead(delayed, check, limiter)
	require.Greater(t, lead, delayed+check*3/2+limiter)
	require.Greater(t, turn.Patience(lead), lead+time.Second, "asynq rounds down to whole seconds")
}

package turn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

func TestJoint(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is asked of it
	defer func() { _ = client.Close() }()
	limiter := func(name string) *reserve.Limiter {
		l, err := reserve.New(client, reserve.Config{Name: name, Group: "g", Limit: reserve.PerSecond(1)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	usual, other := limiter("usual"), limiter("other")
	both, err := reserve.All(usual, other)
	require.NoError(t, err)
	for want, of := range map[string]turn.Need{
		"usual": {}, "usual/k": {Key: "k"}, "other": {Limits: other}, "other/k": {Limits: other, Key: "k"},
		"usual + other": {Limits: both}, "usual/k + other": {Limits: both, Key: "k", Flow: "f", Weight: 2, Urgent: true},
	} {
		j, err := turn.Joint(usual, of)
		require.NoError(t, err)
		require.Equal(t, want, j.String())
	}
	require.Equal(t, "usual + other", both.String(), "it has not changed")
	for want, of := range map[string]turn.Need{
		"invalid key": {Key: strings.Repeat("k", 600)}, "invalid flow": {Flow: strings.Repeat("f", 300)},
		"invalid weight": {Weight: -1}, "invalid limits": {Limits: (*reserve.Limiter)(nil), Key: "k"},
	} {
		_, err = turn.Joint(usual, of)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

func TestCosts(t *testing.T) {
	for _, test := range []struct {
		one  int
		each []int
		want []int
	}{{0, nil, []int{1, 1}}, {7, nil, []int{7, 7}}, {0, []int{1, 600}, []int{1, 600}}} {
		costs, err := turn.Costs(test.one, test.each, 2)
		require.NoError(t, err)
		require.Equal(t, test.want, costs)
	}
	_, err := turn.Costs(-5, nil, 2)
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, "Need.Cost: must be 0 or above, got -5")
	_, err = turn.Costs(1, []int{1, 2}, 2)
	require.ErrorContains(t, err, "set one of them")
	_, err = turn.Costs(0, []int{1}, 2)
	require.ErrorContains(t, err, "one for each of the 2 limits")
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

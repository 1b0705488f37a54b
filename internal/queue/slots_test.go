package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queue"
)

// A pause takes back a turn that nobody has used: a call that comes then does not get it, and its
// slot is let go.
func TestAVoidTurnOfSlotsIsForNobody(t *testing.T) {
	now := time.Now()
	q := queue.Queue{Limits: 1, Slots: []bool{true}}
	q.Give(&queue.Turn{Process: "p", Number: 7, Given: 100, Due: now, Until: now.Add(time.Second)}, now)
	q.Void(func(*queue.Turn) bool { return true }, now)
	c := queue.NewCall()
	q.Join(c, now)
	require.Empty(t, c.Wake)
	ended := q.Ended()
	require.Len(t, ended, 1)
	require.EqualValues(t, 7, ended[0].Number)
}

// Turns that a process gives itself have no number in Redis: calls that were too late for them ask
// as new ones.
func TestALocalTurnOfSlotsHasNoPlace(t *testing.T) {
	now := time.Now()
	q := queue.Queue{Limits: 1, Slots: []bool{true}}
	c := queue.NewCall()
	q.Join(c, now)
	q.Give(&queue.Turn{Due: now.Add(time.Second), Until: now.Add(time.Second)}, now)
	q.Return(c, q.TurnOf(c), now.Add(2*time.Second))
	require.Equal(t, queue.Ask{New: 1}, q.Next(now, queue.Times{}, 10))
}

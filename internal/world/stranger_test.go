package world

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a loss of data, processes that remember nothing spend one bucket more, and a permit beyond that breaks the
// law, however many they are.
func TestStrangersFindOneFullBucket(t *testing.T) {
	w := newWorld(readTranscript(t, "testdata/lost-first-call.txt"))
	defer w.server.Close()
	call := func(process int) {
		w.judgeTurn(&call{process: w.processes[process], parts: []part{{cost: 1}}})
	}
	m := w.meterOf(part{})
	m.users[w.processes[0]], w.processes[0].called = 1, 1
	for range 40 {
		call(0)
	}
	w.now = 501 * time.Millisecond // ten permits later, the data is lost
	w.advance()
	for k := range 3 {
		p := w.start(k)
		p.called, m.users[p], m.replies[p] = w.now, w.now, w.now
	}
	for range 50 {
		call(len(w.processes) - 1)
	}
	require.Empty(t, w.violations)
	call(1)
	require.Len(t, w.violations, 1)
}

// A process whose first call of a limit comes a moment before the loss has no reply about the limit yet.
func TestStrangersWithoutAReply(t *testing.T) {
	w := newWorld(readTranscript(t, "testdata/lost-first-call.txt"))
	defer w.server.Close()
	w.plan.events[0].what, w.now = flush, 501*time.Millisecond
	m, process := w.meterOf(part{}), w.processes[0]
	process.called = 1
	for ago, times := range map[time.Duration]int{2 * process.trip: 1, 2*process.trip + 1: 0} {
		m.users[process], m.replies[process] = 500*time.Millisecond-ago, 500*time.Millisecond-ago+2*process.trip
		require.Equal(t, times, w.foundFull(m), "%v ago", ago)
	}
}

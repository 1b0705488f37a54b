package integration

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// slotsScene is a process whose calls hold all slots, and another process whose calls wait. Calls
// last until they are freed, and then for a moment.
type slotsScene struct {
	*testing.T
	api            *served
	slots          int
	holder, waiter *worker
}

// heldSlots returns when all slots are held.
func heldSlots(t *testing.T, at func(*job)) *slotsScene {
	t.Helper()
	const slots, callers = 2, 5
	s := &slotsScene{T: t, api: blockedAPI(), slots: slots}
	j := slotsJob(t, slots, callers, s.api)
	if at != nil {
		at(&j)
	}
	s.holder = startWorker(t, j)
	s.within(func() bool { return s.api.calls() == slots }, "all slots are held")
	s.waiter = startWorker(t, j)
	time.Sleep(time.Second) // its calls wait
	return s
}

func blockedAPI() *served {
	api := &served{freed: make(chan struct{})}
	api.takes = func() time.Duration {
		select {
		case <-api.freed:
			return 10 * time.Millisecond
		default:
			return time.Hour
		}
	}
	return api
}

func (s *slotsScene) within(is func() bool, what string) {
	s.Helper()
	require.Eventually(s, is, liveness, time.Millisecond, what)
}

// goOn lets the calls end, and expects that nothing hangs and no slot is lost.
func (s *slotsScene) goOn() {
	s.Helper()
	held := s.api.calls()
	close(s.api.freed)
	s.within(func() bool { return s.api.anew(held) }, "calls that held slots end")
	s.within(func() bool { return s.api.calls() > held+50 }, "calls go on")
	s.within(func() bool { most, _ := s.api.seen(); return most >= s.slots }, "no slot is lost")
	most, _ := s.api.seen()
	measure(s, s.Name(), map[string]any{"slots": s.slots, "held": held, "at_once_afterwards": most})
	for _, w := range []*worker{s.holder, s.waiter} {
		w.kill()
	}
}

// anew starts counting anew, if this many calls have ended.
func (s *served) anew(ended int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made-s.now < ended {
		return false
	}
	s.most = s.now
	return true
}

// A process that holds all slots is stopped for 10 s. Other processes get the slots soon.
func TestSlotsOfAStoppedProcess(t *testing.T) {
	long(t, "takes 15 s")
	t.Parallel()
	s := heldSlots(t, nil)
	s.holder.signal(syscall.SIGSTOP)
	stopped := time.Now()
	s.within(func() bool { return s.api.calls() == 2*s.slots }, "others have its slots")
	t.Logf("others had its slots after %v", time.Since(stopped))
	time.Sleep(time.Until(stopped.Add(10 * time.Second)))
	s.holder.signal(syscall.SIGCONT)
	time.Sleep(time.Second) // the process learns that its slots are lost
	s.goOn()
}

// Redis restarts without data while all slots are held.
func TestSlotsAfterARestart(t *testing.T) {
	long(t, "takes 8 s")
	t.Parallel()
	server := redistest.Private(t, redistest.PrivateOptions{})
	s := heldSlots(t, func(j *job) { j.Redis = server.URL() })
	server.Kill()
	time.Sleep(time.Second)
	server.Start()
	time.Sleep(5 * time.Second) // the processes report their slots
	s.goOn()
}

// A replica becomes the master while all slots are held.
func TestSlotsAfterAFailover(t *testing.T) {
	long(t, "takes 15 s")
	t.Parallel()
	master := redistest.Private(t, redistest.PrivateOptions{})
	servers := &faultScene{T: t}
	replica := replicaOf(servers, master)
	s := heldSlots(t, func(j *job) { j.Sentinels = sentinels(servers, master) })
	master.Kill()
	servers.promoted(replica)
	time.Sleep(5 * time.Second)
	s.goOn()
}

// Processes that hold all slots are killed, again and again. No slot is lost.
func TestSlotsOfKilledProcesses(t *testing.T) {
	rounds, processes := 2, 4
	if os.Getenv(soakLength) != "" {
		rounds, processes = 20, 50
	}
	long(t, "takes 5 s per round")
	t.Parallel()
	api, slots := blockedAPI(), 2*processes
	j := slotsJob(t, slots, 5, api)
	most := 0
	for range rounds {
		require.Eventually(t, func() bool { return api.anew(api.calls()) }, liveness, time.Millisecond, "the calls of the dead are over")
		var fleet []*worker
		for range processes {
			fleet = append(fleet, startWorker(t, j))
		}
		began := time.Now()
		require.Eventually(t, func() bool { now, _ := api.seen(); return now >= slots }, liveness, time.Millisecond, "no slot is lost")
		t.Logf("all slots are held again after %v", time.Since(began))
		for _, w := range fleet {
			w.kill()
		}
		round, _ := api.seen()
		most = max(most, round)
	}
	measure(t, t.Name(), map[string]any{"killed": rounds * processes, "slots": slots, "at_once": most})
}

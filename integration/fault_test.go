package integration

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/errgroup"
)

// fault is a bad day: a small function that sets a scene, breaks something under
// load, and says what must hold.
type fault struct {
	name    string
	happens func(*faultScene)
}

var faults = []fault{
	// servers
	{"killed-empty", killedAndEmpty},
	{"killed-aof", killedWithAOF},
	{"frozen", frozenServer},
	{"sentinel-failover", sentinelFailover},
	{"cluster-failover", clusterFailover},
	{"slot-migration", slotMigration},
	// data
	{"flushall", flushAll},
	{"key-deleted", keyDeleted},
	{"script-flush", scriptFlush},
	// network
	{"latency", latency},
	{"replies-cut", repliesCut},
	{"partition-local", partitionLocal},
	{"partition-wait", partitionWait},
	// workers
	{"worker-killed", workerKilled},
	{"worker-frozen", workerFrozen},
	// clocks
	{"clock-forward", clockForward},
	{"clock-back", clockBack},
	// resources
	{"oom", outOfMemory},
	{"pool-exhausted", poolExhausted},
	// policies
	{"outage-fail", outageFail},
	{"outage-open", outageOpen},
}

// Whatever breaks, the provider refuses nothing, no call is lost, nothing waits
// forever, and two seconds after it ended the limit is used again. Each fault
// logs one line, FAULT and its figures.
//
// A verdict of failure counts from a machine that lets a process wake when it
// wants to. From one that does not, the fault is judged anew, after the others and
// alone; what the last attempt shows counts in any case.
func TestFault(t *testing.T) {
	long(t, "takes 2 minutes")
	left := faults
	// They mostly wait, so more of them run at once than -parallel would let.
	for attempt, atOnce := range []int{3, 1, 1} {
		if attempt > 0 && len(left) > 0 {
			waitForCalm(t)
		}
		left = runFaults(t, left, atOnce, attempt == 2)
	}
}

// runFaults returns those that are to be judged anew.
func runFaults(t *testing.T, now []fault, atOnce int, last bool) (anew []fault) {
	t.Helper()
	var (
		running errgroup.Group
		mu      sync.Mutex
	)
	running.SetLimit(atOnce)
	for _, f := range now {
		running.Go(func() error {
			t.Run(f.name, func(t *testing.T) {
				s := newFaultScene(t, f.name)
				f.happens(s)
				if !last && s.excused() {
					mu.Lock()
					defer mu.Unlock()
					anew = append(anew, f)
					return
				}
				s.fail()
			})
			return nil
		})
	}
	_ = running.Wait() // the subtests say what failed
	return anew
}

// A fleet that fails is excused by a machine that stalls, and by nothing else.
func TestOnlyAMachineThatStallsExcuses(t *testing.T) {
	for _, c := range []struct {
		stall   time.Duration
		fails   bool
		excused bool
	}{
		{steady, true, false},
		{2 * steady, true, true},
		{2 * steady, false, false},
	} {
		s := &faultScene{T: t, stall: func() time.Duration { return c.stall }}
		if c.fails {
			s.Errorf("the provider refuses")
		}
		assert.Equal(t, c.excused, s.excused(), "%+v", c)
	}
}

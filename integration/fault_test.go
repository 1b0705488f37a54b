package integration

import (
	"testing"

	"golang.org/x/sync/errgroup"
)

// faults are the bad days: each a small function that makes a scene, breaks
// something under load, and says what must hold.
var faults = []struct {
	name  string
	fault func(*faultScene)
}{
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
func TestFault(t *testing.T) {
	long(t, "takes 2 minutes")
	// They mostly wait, so more of them run at once than -parallel would let.
	var running errgroup.Group
	running.SetLimit(3)
	for _, f := range faults {
		running.Go(func() error {
			t.Run(f.name, func(t *testing.T) { f.fault(newFaultScene(t, f.name)) })
			return nil
		})
	}
	_ = running.Wait() // the subtests say what failed
}

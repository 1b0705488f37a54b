package integration

import (
	"testing"

	"golang.org/x/sync/errgroup"
)

// fault is one fault: a function that sets up a scene, breaks something under load, and says what
// must hold.
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
	{"sentinel-failover-lags", sentinelFailoverLags},
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

// faultsAtOnce is how many faults run at a time: they mostly wait.
const faultsAtOnce = 6

// Whatever breaks, no more turns are granted than the limit allows, and no turn and no call is
// lost. Every caller of a live worker calls again, and every worker ends when it is signalled. Two
// seconds after the fault the whole limit is used, as far as this machine runs the processes. Each
// fault logs one line: FAULT and its figures.
func TestFault(t *testing.T) {
	long(t, "takes half a minute")
	t.Parallel()
	var running errgroup.Group
	running.SetLimit(faultsAtOnce)
	for _, f := range faults {
		running.Go(func() error {
			t.Run(f.name, func(t *testing.T) { f.happens(newFaultScene(t, f.name)) })
			return nil
		})
	}
	_ = running.Wait() // the subtests report failures
}

package integration

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The master with the limit's hash slot is killed, and its replica takes over.
func clusterFailover(s *faultScene) {
	c := newFaultCluster(s)
	for _, n := range c.masters {
		n.impatient(s)
	}
	owner := c.owner()
	replica := c.addReplica(owner)
	s.load()
	s.fault(func() {
		owner.server.Kill()
		s.promoted(replica.server)
		s.within(func() bool { return c.up(owner) }, "the cluster is up")
	})
	// The replica may lack the last turns.
	s.close(faultVerdict{lossy: true})
}

// The limit's hash slot moves slowly from one master to another. For a while the keys are on both,
// and calls that need all of them fail.
func slotMigration(s *faultScene) {
	c := newFaultCluster(s)
	s.load()
	s.fault(func() {
		from := c.owner()
		to := c.masters[(slices.Index(c.masters, from)+1)%len(c.masters)]
		c.migrate(from, to)
	})
	s.close(faultVerdict{})
}

// faultCluster is a Redis Cluster of three masters.
type faultCluster struct {
	scene   *faultScene
	masters []*faultNode
	slot    int64 // the limit's hash slot
}

type faultNode struct {
	server    *redistest.PrivateServer
	client    *redis.Client
	id        string
	low, high int64 // its hash slots
}

func newFaultCluster(s *faultScene) *faultCluster {
	s.Helper()
	const masters, slots = 3, 16_384
	c := &faultCluster{scene: s}
	for i := range int64(masters) {
		n := c.node()
		n.low, n.high = i*slots/masters, (i+1)*slots/masters-1
		c.do(n, "cluster", "addslotsrange", n.low, n.high)
		c.do(n, "cluster", "set-config-epoch", i+1)
		if i > 0 {
			c.meet(n)
		}
		c.masters = append(c.masters, n)
		s.job.Redis.Cluster = append(s.job.Redis.Cluster, n.server.Addr())
	}
	s.within(func() bool { return c.up(nil) }, "the cluster is up")
	var err error
	c.slot, err = c.masters[0].client.ClusterKeySlot(s.Context(), s.job.Prefix+":{api}:p").Result()
	require.NoError(s, err)
	return c
}

func (c *faultCluster) node() *faultNode {
	c.scene.Helper()
	// By default a node's bus listens 10,000 above its port, which another server may use.
	server := redistest.Private(c.scene, redistest.PrivateOptions{Args: []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "15000", "--cluster-port", redistest.Port(c.scene.T),
		"--repl-diskless-sync-delay", "0",
	}})
	n := &faultNode{server: server, client: server.Client(c.scene)}
	n.id = c.do(n, "cluster", "myid")
	return n
}

// impatient makes a node notice within seconds that another one is gone. Call it after the nodes
// know each other: before that, it would give up a node that is slow to answer a MEET.
func (n *faultNode) impatient(s *faultScene) {
	s.Helper()
	require.NoError(s, n.client.ConfigSet(s.Context(), "cluster-node-timeout", "2000").Err())
}

// meet introduces a node to the others.
func (c *faultCluster) meet(n *faultNode) {
	c.scene.Helper()
	first := c.masters[0]
	bus, err := first.client.ConfigGet(c.scene.Context(), "cluster-port").Result()
	require.NoError(c.scene, err)
	host, port := hostPort(c.scene, first.server)
	c.do(n, "cluster", "meet", host, port, bus["cluster-port"])
}

// do sends a command to a node and returns its reply, if that is a text.
func (c *faultCluster) do(n *faultNode, command ...any) string {
	c.scene.Helper()
	reply, err := n.client.Do(c.scene.Context(), command...).Result()
	require.NoError(c.scene, err, "%v", command)
	text, _ := reply.(string)
	return text
}

// up reports whether all masters, except one, serve all hash slots.
func (c *faultCluster) up(without *faultNode) bool {
	for _, n := range c.masters {
		if n == without {
			continue
		}
		info, err := n.client.ClusterInfo(c.scene.Context()).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		nodes, err := n.client.ClusterNodes(c.scene.Context()).Result()
		if err != nil || strings.Contains(nodes, "handshake") || strings.Count(nodes, "master") < len(c.masters) {
			return false
		}
	}
	return true
}

// owner is the master with the limit's hash slot.
func (c *faultCluster) owner() *faultNode {
	c.scene.Helper()
	i := slices.IndexFunc(c.masters, func(n *faultNode) bool { return n.low <= c.slot && c.slot <= n.high })
	require.GreaterOrEqual(c.scene, i, 0)
	return c.masters[i]
}

// addReplica adds a replica to a master. The replica has the data when addReplica returns.
func (c *faultCluster) addReplica(of *faultNode) *faultNode {
	c.scene.Helper()
	n := c.node()
	c.meet(n)
	c.scene.within(func() bool {
		return n.client.Do(c.scene.Context(), "cluster", "replicate", of.id).Err() == nil
	}, "the replica knows its master")
	c.scene.replicates(n.client)
	// Only nodes that know it ask it to vote.
	c.scene.within(func() bool {
		for _, m := range c.masters {
			if nodes := m.client.ClusterNodes(c.scene.Context()).Val(); !strings.Contains(nodes, "slave "+of.id) {
				return false
			}
		}
		return true
	}, "the masters know the replica")
	n.impatient(c.scene)
	return n
}

// migrate moves the limit's hash slot as redis-cli does, with time between the keys.
func (c *faultCluster) migrate(from, to *faultNode) {
	c.scene.Helper()
	const between = 200 * time.Millisecond
	ctx := c.scene.Context()
	host, port := hostPort(c.scene, to.server)
	c.do(to, "cluster", "setslot", c.slot, "importing", from.id)
	c.do(from, "cluster", "setslot", c.slot, "migrating", to.id)
	for {
		keys, err := from.client.ClusterGetKeysInSlot(ctx, int(c.slot), 1).Result()
		require.NoError(c.scene, err)
		if len(keys) == 0 {
			break
		}
		time.Sleep(between)
		// The key may have expired or been removed meanwhile.
		reply := c.do(from, "migrate", host, port, keys[0], 0, 5000)
		c.scene.Logf("%s: %s", keys[0], reply)
	}
	time.Sleep(between)
	for _, n := range append([]*faultNode{to, from}, c.masters...) {
		c.do(n, "cluster", "setslot", c.slot, "node", to.id)
	}
}

package reserve

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// dead is how long a process may be silent before it counts as dead.
const dead = 3 * time.Second

// shared is what the Limiters of one group share in a process, so that a call may need several of
// them at once. A Limiter without a group has its own.
type shared struct {
	group   group
	client  redis.UniversalClient
	first   Config // of the Limiter that was made first: its name and Logger are used
	process *engine.Process
	source  *meter.Source

	warned sync.Once      // guards the warning that Redis may evict the state
	slept  rate.Sometimes // bounds how often missed turns are logged

	strange sync.Once // guards the warning that Redis was never reached
	name    string    // of the group, or of the only Limiter

	differing sync.Mutex
	differs   map[string]differing // by name and own limit; guarded by differing

	uses int // open Limiters; guarded by the lock of groups
	life context.Context
	end  context.CancelFunc
	busy sync.WaitGroup
}

// group identifies a group of Limiters in a process.
type group struct {
	client       redis.UniversalClient
	prefix, name string
	outage       Outage
}

// groups are the groups with an open Limiter.
var groups = struct {
	sync.Mutex
	open map[group]*shared
}{open: map[group]*shared{}}

// share returns the shared state of a Limiter's group.
func share(client redis.UniversalClient, cfg Config) *shared {
	if cfg.Group == "" {
		return newShared(client, cfg, group{})
	}
	g := group{client, cfg.Prefix, cfg.Group, cfg.Outage}
	groups.Lock()
	defer groups.Unlock()
	s := groups.open[g]
	if s == nil {
		s = newShared(client, cfg, g)
		groups.open[g] = s
	} else {
		s.uses++
	}
	return s
}

// newShared returns new shared state with one user.
func newShared(client redis.UniversalClient, cfg Config, g group) *shared {
	name := cfg.Name
	if cfg.Group != "" {
		name = cfg.Group
	}
	s := &shared{group: g, client: client, first: cfg, name: name, uses: 1, slept: rate.Sometimes{First: 1, Interval: time.Minute}, differs: map[string]differing{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.process = engine.Start(client, engine.Config{
		Channel: scripts.Channel(cfg.Prefix, cfg.Group, cfg.Name), Dead: dead,
		Away: away[cfg.Outage.Policy], Failures: cfg.Outage.Failures, Probe: cfg.Outage.Probe, Share: cfg.Outage.share,
		Errors: engine.Errors{Closed: ErrClosed, Cancelled: ErrCancelled, Away: errAway, Missed: miss, Kind: errKind},
	}, string(cfg.Outage.Policy), s.watch)
	s.source = &meter.Source{Policy: string(cfg.Outage.Policy), Read: s.process.Standing}
	s.source.Open()
	return s
}

// leave ends the calls of a Limiter. If it is the last Limiter of the group, leave also ends all
// that they share.
func (s *shared) leave(c *core) {
	groups.Lock()
	s.uses--
	last := s.uses == 0
	if last && groups.open[s.group] == s {
		delete(groups.open, s.group)
	}
	groups.Unlock()
	if !last {
		s.process.End(c.name)
		return
	}
	s.source.Close()
	s.end()
	s.process.Close()
	s.busy.Wait()
}

// watch logs what an operator should know.
func (s *shared) watch(e engine.Event) {
	switch e.What {
	case engine.TurnUsed:
	case engine.Asked:
		if e.Err == nil {
			s.warned.Do(s.lookForEviction)
		}
	case engine.Lapsed:
		s.slept.Do(func() {
			s.first.Logger.Info("fleetpace: missed a turn: the call woke after its turn had expired, because the process had too little CPU or Redis was slow. It was queued again. If this is frequent, add CPU or raise the burst",
				"limit", e.Need.Limit.String(), "over_for", e.Took.Round(time.Millisecond))
		})
	default:
		s.hear(e)
	}
}

// errKind returns the error for calls whose limit has another kind than the limit in force under
// its name.
func errKind(name *wire.Name, inForce string) error {
	return invalid("Config.Limit", "%s of the name %q is of another kind than %s, which is in force under that name: give one of them another name, or stop the processes that use the other; \"fleetpace show %s\" lists them",
		name.Limit, name.Text, inForce, name.Text)
}

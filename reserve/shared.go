package reserve

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// core is shared by a Limiter and all Limiters that For derives from it.
type core struct {
	*shared
	cfg    Config
	terms  wire.Terms
	name   *wire.Name
	root   *wire.Limit // the limit without a key
	keyed  keyed
	levels levels

	closed atomic.Bool
	gone   chan struct{} // closed when all calls have ended
}

func newCore(client redis.UniversalClient, cfg Config) *core {
	beats := scripts.BeatKeys(cfg.Prefix, cfg.Group, cfg.Name)
	c := &core{cfg: cfg, terms: cfg.Limit.terms(), gone: make(chan struct{}), name: &wire.Name{
		Life: beats[:2], Keys: beats[2:],
		Kind: cfg.Limit.terms().Kind, Pace: cfg.Limit.Rate(), Limit: cfg.Limit.String(),
		Text: cfg.Name, Index: scripts.Index(cfg.Prefix), Field: scripts.Indexed(cfg.Group, cfg.Name),
		Meter: meter.Named(cfg.Group, cfg.Name),
	}}
	c.name.Owner = c
	c.root = c.newLimit("")
	c.shared = share(client, cfg)
	return c
}

func (c *core) newLimit(key string) *wire.Limit {
	l := wire.NewLimit(c.terms, scripts.Keys(c.cfg.Prefix, c.cfg.Group, c.cfg.Name, c.terms.Kind, key), c.name)
	l.Key, l.Lease, l.MaxWaiting, l.Plans = key, c.cfg.Prefetch, c.cfg.MaxWaiting, c.cfg.LimitOf != nil
	return l
}

// limit returns the limit of a key, with its cached state.
func (c *core) limit(key string) *wire.Limit { return c.keyed.get(key, c.newLimit) }

func (c *core) close() {
	if c.closed.CompareAndSwap(false, true) {
		c.leave(c)
		close(c.gone)
	}
	<-c.gone
}

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

	replanning  atomic.Bool    // plans of limits at which calls wait are being looked up
	unplanned   rate.Sometimes // bounds how often it is logged that Config.LimitOf has failed …
	unversioned rate.Sometimes // … or has changed a limit without a newer version

	followed  rate.Sometimes // bounds how often newer plans of other processes are logged
	following atomic.Int64   // how many of those there were
	looking   atomic.Int64   // how many limits are looked at that others have moved

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
	s := &shared{group: g, client: client, first: cfg, name: name, uses: 1, slept: rate.Sometimes{First: 1, Interval: time.Minute},
		unplanned: rate.Sometimes{First: 1, Interval: time.Minute}, unversioned: rate.Sometimes{First: 1, Interval: time.Minute}, followed: rate.Sometimes{First: 20, Interval: time.Minute}, differs: map[string]differing{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.process = engine.Start(client, engine.Config{
		Channel: scripts.Channel(cfg.Prefix, cfg.Group, cfg.Name), Dead: dead,
		Away: away[cfg.Outage.Policy], Failures: cfg.Outage.Failures, Probe: cfg.Outage.Probe, Share: cfg.Outage.share,
		Errors: engine.Errors{Closed: ErrClosed, Cancelled: ErrCancelled, Away: errAway, Missed: miss, Full: full, Kind: errKind, Stopped: exhausted(cfg.Group)},
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
	case engine.Asked:
		if e.Err == nil {
			s.warned.Do(s.lookForEviction)
		}
	case engine.Lapsed:
		s.slept.Do(func() {
			s.first.Logger.Info("fleetpace: missed a turn: the call woke after its turn had expired, because the process had too little CPU, or Redis or a caller of fleetpace serve was slow. It was queued again. If this is frequent, add CPU or raise the burst",
				"limit", inGroup(s.first.Group, e.Need.Limit.String()), "over_for", max(0, e.Took).Round(time.Millisecond)) // it may have been on its way
		})
	default:
		s.hear(e)
	}
}

// errKind returns the error for calls whose limit has another kind than the limit in force under
// its name. It does the same if processes of another version use the name, and the two cannot share it.
func errKind(name *wire.Name, inForce *wire.Ruling) error {
	if inForce.Protocol > 0 {
		return fmt.Errorf("%w; \"fleetpace show %s\" lists the processes", wire.Version(inForce.Protocol), name.Text)
	}
	return invalid("Config.Limit", "%s of the name %q is of another kind than %s, which is in force under that name: use one kind in all processes, or Config.LimitOf if only some keys have another; \"fleetpace show %s\" lists the processes. Two limits of an API need two names",
		name.Limit, name.Text, inForce.Limit, name.Text)
}

// lookForEviction asks Redis whether it may evict state, if there is a Logger.
func (s *shared) lookForEviction() {
	if s.first.Logger.Enabled(s.life, slog.LevelWarn) {
		s.busy.Go(func() { s.warnOfEviction(s.life) })
	}
}

// warnOfEviction asks Redis whether it may evict the state of a limit, and logs a warning if so. If
// Redis does not say, or denies this user the question, it logs nothing.
func (s *shared) warnOfEviction(ctx context.Context) {
	memory, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	policy, limited := evicts(memory)
	if !limited || policy == "noeviction" {
		return
	}
	s.first.Logger.Warn("fleetpace: Redis may evict the state of limits when its memory is full, and calls may then exceed the limit;"+
		" set maxmemory-policy to noeviction, or use a separate Redis for the limits",
		"limit", s.first.Name, "maxmemory-policy", policy)
}

// evicts reads the reply of INFO memory: the eviction policy, and whether memory is limited.
// Without a memory limit the policy has no effect.
func evicts(memory string) (policy string, limited bool) {
	for line := range strings.Lines(memory) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch field {
		case "maxmemory":
			limited = value != "0"
		case "maxmemory_policy":
			policy = value
		}
	}
	return policy, limited && policy != ""
}

// remembered is how many keys a process caches at least, the ones used last. It caches at most
// twice as many.
const remembered = 10_000

// keyed caches the limits of keys. The zero value is ready to use, by many goroutines.
//
// A key that is used stands in recent. When recent is full, it becomes older, and what was older is
// forgotten. So a look-up moves nothing, unless the key was not used for long.
type keyed struct {
	mu            sync.RWMutex
	recent, older map[string]*wire.Limit // guarded by mu
}

// get returns the cached limit of a key, or else a new one, which it caches.
func (k *keyed) get(key string, create func(key string) *wire.Limit) *wire.Limit {
	k.mu.RLock()
	l, ok := k.recent[key]
	k.mu.RUnlock()
	if ok {
		return l
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l, ok = k.recent[key]; ok {
		return l
	}
	if l, ok = k.older[key]; !ok {
		l = create(key)
	}
	if k.recent == nil || len(k.recent) >= remembered {
		k.recent, k.older = map[string]*wire.Limit{}, k.recent
	}
	k.recent[key] = l
	return l
}

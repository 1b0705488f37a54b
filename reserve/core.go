package reserve

import (
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// remembered is the most keys whose state a process caches.
const remembered = 10_000

// core is shared by a Limiter and all Limiters that For derives from it.
type core struct {
	*shared
	cfg   Config
	terms wire.Terms
	name  *wire.Name
	root  *wire.Limit // the limit without a key
	keyed *lru.Cache[string, *wire.Limit]

	closed atomic.Bool
	gone   chan struct{} // closed when all calls have ended
}

func newCore(client redis.UniversalClient, cfg Config) (*core, error) {
	keyed, err := lru.New[string, *wire.Limit](remembered)
	if err != nil {
		return nil, err
	}
	beats := scripts.BeatKeys(cfg.Prefix, cfg.Group, cfg.Name)
	c := &core{cfg: cfg, terms: cfg.Limit.terms(), keyed: keyed, gone: make(chan struct{}), name: &wire.Name{
		Life: beats[:2], Keys: beats[2:],
		Kind: cfg.Limit.terms().Kind, Pace: cfg.Limit.Rate(), Limit: cfg.Limit.String(),
		Text: cfg.Name, Index: scripts.Index(cfg.Prefix), Field: scripts.Indexed(cfg.Group, cfg.Name),
		Meter: meter.Of(cfg.Group, cfg.Name),
	}}
	c.root = c.newLimit("")
	c.shared = share(client, cfg)
	return c, nil
}

func (c *core) newLimit(key string) *wire.Limit {
	l := wire.NewLimit(c.terms, scripts.Keys(c.cfg.Prefix, c.cfg.Group, c.cfg.Name, c.terms.Kind, key), c.name)
	l.Key, l.Lease = key, c.cfg.Lease
	return l
}

// limit returns the limit of a key, with its cached state.
func (c *core) limit(key string) *wire.Limit {
	if l, ok := c.keyed.Get(key); ok {
		return l
	}
	l := c.newLimit(key)
	if known, ok, _ := c.keyed.PeekOrAdd(key, l); ok {
		return known
	}
	return l
}

func (c *core) close() {
	if c.closed.CompareAndSwap(false, true) {
		c.leave(c)
		close(c.gone)
	}
	<-c.gone
}

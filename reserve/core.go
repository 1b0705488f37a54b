package reserve

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// rememberedLines bounds how many idle lines a process remembers the reach of.
const rememberedLines = 10_000

// core is what a Limiter and those that For makes of it share.
type core struct {
	client   redis.UniversalClient
	cfg      Config
	interval float64 // micros per permit
	started  time.Time
	member   string // this process, in the ids of its tickets
	serial   atomic.Uint64

	mu      sync.Mutex
	lines   map[string]*line              // those in use, by key
	reaches *lru.Cache[string, time.Time] // of lines that are not
	closing chan struct{}
	closed  bool
	busy    sync.WaitGroup // one per line in use
}

func newCore(client redis.UniversalClient, cfg Config) (*core, error) {
	reaches, err := lru.New[string, time.Time](rememberedLines)
	if err != nil {
		return nil, err
	}
	member := make([]byte, 8)
	_, _ = rand.Read(member) // never fails, says crypto/rand
	return &core{
		client:   client,
		cfg:      cfg,
		interval: cfg.Limit.micros(),
		started:  time.Now(),
		member:   hex.EncodeToString(member),
		lines:    make(map[string]*line),
		reaches:  reaches,
		closing:  make(chan struct{}),
	}, nil
}

// lead is how long before its turn a waiting number is claimed: early enough
// for a slow round trip, late enough to follow a line that moves.
func (c *core) lead() time.Duration { return c.cfg.InlineBound / 2 }

// together is how close a turn is claimed along with one whose time has come:
// more of them share a round trip, and more are lost when the process is killed.
func (c *core) together() time.Duration { return c.lead() * 5 / 4 }

// near is how close a turn must be for a number to count as left lying: whoever
// holds it would have claimed it long ago, at its lead.
func (c *core) near() time.Duration { return c.lead() / 2 }

// step is the time between two turns of a cost.
func (c *core) step(cost int64) time.Duration {
	return time.Duration(float64(cost) * c.interval * float64(time.Microsecond))
}

// row is how many numbers of a cost are near.
func (c *core) row(cost int64) int { return 1 + int(c.near()/max(c.step(cost), 1)) }

func (c *core) newID() string {
	return c.member + "-" + strconv.FormatUint(c.serial.Add(1), 36)
}

func (c *core) keys(key string) []string { return lua.Keys(c.cfg.Prefix, c.cfg.Name, key) }

func (c *core) name(key string) string {
	if key == "" {
		return c.cfg.Name
	}
	return c.cfg.Name + "/" + key
}

// enter returns the line of a key, which stays until leave.
func (c *core) enter(key string) (*line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	l := c.lines[key]
	if l == nil {
		l = &line{core: c, key: key, keys: c.keys(key)}
		l.reach, _ = c.reaches.Get(key)
		c.lines[key] = l
		c.busy.Add(1)
	}
	l.uses++
	return l, nil
}

// hold keeps a line that is in use.
func (c *core) hold(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.uses++
}

func (c *core) leave(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.uses--; l.uses > 0 {
		return
	}
	delete(c.lines, l.key)
	c.reaches.Add(l.key, l.reach)
	c.busy.Done()
}

func (c *core) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	c.mu.Unlock()
	c.busy.Wait()
}

package reserve

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/outage"
	"github.com/fleetpace/fleetpace/lua"
)

// rememberedLines bounds how many idle lines a process remembers.
const rememberedLines = 10_000

// core is what a Limiter and those that For makes of it share.
type core struct {
	client    redis.UniversalClient
	cfg       Config
	interval  float64 // micros per permit
	limit     [2]any  // the interval and the burst, as scripts want them
	started   time.Time
	member    string        // this process, in the ids of its tickets
	names     atomic.Uint64 // counts the ids that were made up
	serials   atomic.Int64  // counts the numbered calls
	clock     clock
	gate      *outage.Breaker
	jitter    func() float64 // from 0 up to 1, so that processes do not act in step
	warned    sync.Once      // of a Redis that may evict the line
	lost      rate.Sometimes // numbers that could not be given back
	bus       bus
	riders    riders
	leased    leaseCounts
	root      *line           // of no key: it is in use until the end
	life      context.Context // ends when it is closed …
	end       context.CancelFunc
	closing   <-chan struct{} // … and this with it
	listening atomic.Bool     // to the news
	unheard   sync.Once       // of a user who may not
	closed    atomic.Bool

	mu    sync.Mutex
	lines map[string]*line          // those in use, by key
	idle  *lru.Cache[string, *line] // those that are not, as far as they are remembered
	busy  sync.WaitGroup            // one per line in use
}

func newCore(client redis.UniversalClient, cfg Config) (*core, error) {
	idle, err := lru.New[string, *line](rememberedLines)
	if err != nil {
		return nil, err
	}
	member := make([]byte, 8)
	_, _ = cryptorand.Read(member) // never fails, says crypto/rand
	interval := cfg.Limit.micros()
	c := &core{
		client:   client,
		cfg:      cfg,
		interval: interval,
		limit:    [2]any{strconv.FormatFloat(interval, 'f', -1, 64), strconv.Itoa(cfg.Limit.MaxBurst())},
		started:  time.Now(),
		member:   hex.EncodeToString(member),
		lines:    make(map[string]*line),
		gate:     newBreaker(cfg, mathrand.Float64),
		jitter:   mathrand.Float64,
		lost:     rate.Sometimes{First: 1, Interval: time.Minute},
		idle:     idle,
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.closing = c.life.Done()
	c.bus.core = c
	c.root, err = c.enter("")
	return c, err
}

// lead is how long before its turn a waiting number is claimed: early enough
// for a slow round trip, late enough to follow a line that moves.
func (c *core) lead() time.Duration { return c.cfg.InlineBound / 2 }

// nearby is how close a turn is claimed along with one whose time has come:
// more of them share a round trip, and more are lost when the process is killed.
func (c *core) nearby() time.Duration { return c.lead() * 5 / 4 }

// near is how close a turn must be for a number to count as left lying: whoever
// holds it would have claimed it long ago, at its lead.
func (c *core) near() time.Duration { return c.lead() / 2 }

// step is the time between two turns of a cost, under this process's limit.
func (c *core) step(cost int64) time.Duration { return c.terms().step(cost) }

// fill is the time that an empty bucket takes to fill.
func (c *core) fill() time.Duration { return c.step(int64(c.cfg.Limit.MaxBurst())) }

// row is how many numbers of a cost are near. The line must be locked.
func (l *line) row(cost int64) int { return 1 + int(l.core.near()/max(l.terms().step(cost), 1)) }

func (c *core) newID() string {
	return c.member + "-" + strconv.FormatUint(c.names.Add(1), 36)
}

func (c *core) keys(key string) []string {
	return lua.GroupKeys(c.cfg.Prefix, c.cfg.Group, c.cfg.Name, key)
}

// channel is where the scripts tell of turns that move.
func (c *core) channel() string { return lua.GroupNews(c.cfg.Prefix, c.cfg.Group, c.cfg.Name) }

func (c *core) name(key string) string {
	if key == "" {
		return c.cfg.Name
	}
	return c.cfg.Name + "/" + key
}

// enter returns the line of a key, which stays until leave.
func (c *core) enter(key string) (*line, error) {
	if key == "" && c.root != nil {
		return c.enterRoot()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, ErrClosed
	}
	l := c.lines[key]
	if l == nil {
		if known, ok := c.idle.Get(key); ok {
			l = known
			c.idle.Remove(key)
		} else {
			l = &line{core: c, key: key, keys: c.keys(key)}
		}
		c.lines[key] = l
		c.busy.Add(1)
	}
	l.uses.Add(1)
	return l, nil
}

// revisit returns the line of a key for giving back, which works after close, too: then
// nobody waits for it any more.
func (c *core) revisit(key string) (l *line, leave func()) {
	if l, err := c.enter(key); err == nil {
		return l, func() { c.leave(l) }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	leave = func() {}
	if l := c.lines[key]; l != nil {
		return l, leave
	}
	if l, ok := c.idle.Get(key); ok {
		return l, leave
	}
	return &line{core: c, key: key, keys: c.keys(key)}, leave
}

func (c *core) enterRoot() (*line, error) {
	c.root.uses.Add(1)
	if c.closed.Load() {
		c.leave(c.root)
		return nil, ErrClosed
	}
	return c.root, nil
}

// hold keeps a line that is in use.
func (c *core) hold(l *line) { l.uses.Add(1) }

func (c *core) leave(l *line) {
	if l.uses.Add(-1) > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.uses.Load() > 0 || c.lines[l.key] != l { // somebody came, and may have left since
		return
	}
	for q := range l.timers {
		l.stop(q) // it would keep the line, for as long as the limit is slow
	}
	delete(c.lines, l.key)
	c.idle.Add(l.key, l)
	c.busy.Done()
}

// greet looks at Redis's settings when it has answered for the first time, if
// somebody wants to hear of them. A line is in use meanwhile.
func (c *core) greet() {
	c.warned.Do(func() {
		if ctx := context.Background(); c.cfg.Logger.Enabled(ctx, slog.LevelWarn) {
			c.busy.Go(func() { c.warnOfEviction(ctx) })
		}
	})
}

func (c *core) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// rest lets a moment pass after the nth attempt failed.
func (c *core) rest(ctx context.Context, n int) { c.restFor(ctx, c.backoff(n)) }

// restFor lets a time pass, unless the context ends or the Limiter is closed.
func (c *core) restFor(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// backoff is the pause after the nth failure in a row.
func (c *core) backoff(n int) time.Duration {
	pause := min(50*time.Millisecond<<min(n, 5), time.Second)
	return time.Duration((0.5 + c.jitter()) * float64(pause))
}

func (c *core) close() {
	c.mu.Lock()
	first := c.closed.CompareAndSwap(false, true)
	c.mu.Unlock()
	if first {
		c.end()
		c.surrender()
		c.leave(c.root)
	}
	c.busy.Wait()
}

// inUse are the lines that something uses.
func (c *core) inUse() []*line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.lines))
}

// surrender gives back what was taken ahead.
func (c *core) surrender() {
	for _, l := range c.inUse() {
		l.mu.Lock()
		l.tidyNow()
		l.mu.Unlock()
	}
}

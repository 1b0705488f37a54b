package adaptive

import (
	"context"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Rate adapts the limit of a [reserve.Limiter], for the whole fleet, to the results of its calls.
// It lowers the rate once per incident, and raises it in small steps. The package documentation
// explains both. Most callers want [Rate.Report], after each call.
//
// Make one Rate of a limit in each process. Nothing else may set the limit automatically, such as
// transport.Config.Learn.
//
// The zero Rate is not usable; make one with [New] and keep it for as long as its limiter. It is
// safe for concurrent use.
type Rate struct {
	fleet   *fleet
	limiter *reserve.Limiter
	key     string // "" is the limit as a whole
	bad     bool   // the limiter refuses all calls of this key
}

// fleet is shared by all keys of a Rate.
type fleet struct {
	client  redis.UniversalClient
	config  Config
	own     reserve.Limit
	name    string
	keys    *lru.Cache[string, *watch]
	trouble troubles

	ctx    context.Context // ends when the Rate is closed
	end    context.CancelFunc
	mu     sync.Mutex // guards closed and trips
	closed bool
	trips  sync.WaitGroup
}

// mostKeys is the most keys that a process remembers. If it forgets a key, it loses the calls that
// it has not reported yet, of less than one round.
const mostKeys = 10_000

// New makes a Rate for a [reserve.Limiter], or for a [reserve.Joint] of one limiter. The client
// must be connected to the limiter's Redis; it may be the limiter's own. New sends nothing to
// Redis. The error is a [reserve.ErrInvalid] that names the field.
func New(client redis.UniversalClient, turns reserve.Turns, config Config) (*Rate, error) {
	if err := validateClient(client); err != nil {
		return nil, err
	}
	limiter, err := oneOf(turns)
	if err != nil {
		return nil, err
	}
	own := limiter.Limit()
	config = config.withDefaults(own)
	if err := config.validate(own); err != nil {
		return nil, err
	}
	keys, err := lru.New[string, *watch](mostKeys)
	if err != nil {
		return nil, err
	}
	// For replaces the limiter's key, if it has one, so the name is the text before the key.
	name := strings.TrimSuffix(limiter.For("k").String(), "/k")
	key := strings.TrimPrefix(strings.TrimPrefix(limiter.String(), name), "/")
	f := &fleet{client: client, config: config, own: own, name: name, keys: keys, trouble: troubles{logger: config.Logger}}
	f.ctx, f.end = context.WithCancel(context.Background())
	return &Rate{fleet: f, limiter: limiter, key: key, bad: len(key) > longestKey}, nil
}

// For returns the Rate of one key, for the calls of [reserve.Limiter.For] with the same key. The
// rate of each key adapts on its own. For is cheap: call it for each use. If the limiter refuses
// the key, reports do nothing.
func (r *Rate) For(key string) *Rate {
	return &Rate{fleet: r.fleet, limiter: r.limiter.For(key), key: key, bad: key == "" || len(key) > longestKey}
}

// String returns the name of the limiter, with its key.
func (r *Rate) String() string { return r.limiter.String() }

// Report reports the result of a call that got a response. The moment sent is [time.Now] after the
// call's turn had come. The call was refused if the API says that there are too many calls: with
// status 429, or with 503 or 529 if it is overloaded. A call that failed for another reason was not
// refused. Do not report calls without a response.
//
// Report is cheap and never waits for Redis. The rate may change shortly after.
func (r *Rate) Report(sent time.Time, refused bool) { r.ReportN(sent, 1, refused) }

// ReportN is Report for a call that cost n permits; an n below 1 counts as 1.
func (r *Rate) ReportN(sent time.Time, n int, refused bool) {
	if r.bad {
		return
	}
	w := r.fleet.watch(r.key)
	if !w.saw(time.Now(), sent, int64(max(1, n)), refused) {
		return
	}
	if !r.fleet.begin() {
		return
	}
	go func() {
		defer r.fleet.trips.Done()
		if err := r.tell(w); err != nil && r.fleet.ctx.Err() == nil {
			r.fleet.trouble.report(r.String(), err)
		}
	}()
}

// Close stops all reports to Redis and returns when they have ended. From then on, Report does
// nothing, and the rate stays in force until it expires. Close also closes every Rate that For made
// of this one. It may be called more than once, and its error is always nil. Close the limiter and
// the client after it.
func (r *Rate) Close() error {
	f := r.fleet
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.trips.Wait()
	return nil
}

// begin counts a trip to Redis. It reports false if the Rate is closed.
func (f *fleet) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.trips.Add(1)
	}
	return !f.closed
}

func (f *fleet) watch(key string) *watch {
	if w, ok := f.keys.Get(key); ok {
		return w
	}
	w := newWatch(time.Now(), f.config.Every/shares)
	if before, ok, _ := f.keys.PeekOrAdd(key, w); ok {
		return before
	}
	return w
}

// redisKey is the key of the state, beside those of the limiter.
func (r *Rate) redisKey() string {
	return lua.Keys(r.fleet.config.Prefix, r.limiter.Group(), r.fleet.name, "adapt", r.key)[0]
}

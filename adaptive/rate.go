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

// Rate moves the limit of a [reserve.Limiter], for the whole fleet, by what is reported of
// its calls: down once per incident, and up again in small steps. The package's
// documentation says what that means. Most callers want [Rate.Report], after each call.
//
// Make one Rate of a limit in each process. Nothing else may set the limit on its own, such
// as transport.Config.Learn.
//
// The zero Rate is not usable; make one with [New] and keep it for as long as its limiter.
// It is safe for concurrent use.
type Rate struct {
	fleet   *fleet
	limiter *reserve.Limiter
	key     string // "": the limit as a whole
	bad     bool   // the limiter lets no call of this key through
}

// fleet is what all keys of a Rate share.
type fleet struct {
	client  redis.UniversalClient
	config  Config
	own     reserve.Limit
	name    string
	keys    *lru.Cache[string, *watch]
	trouble troubles

	ctx    context.Context // ends when the Rate is closed
	end    context.CancelFunc
	mu     sync.Mutex // for what follows
	closed bool
	trips  sync.WaitGroup
}

// mostKeys is how many keys a process knows. Of one that is forgotten it loses what it has
// not yet told of the calls of less than a round.
const mostKeys = 10_000

// New makes a Rate for a [reserve.Limiter], or for a [reserve.Joint] of one. The client is one
// of the Redis that the limiter uses, such as the limiter's own. Nothing is asked of Redis yet.
// The error is a [reserve.ErrInvalid] that names the field.
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
	// For replaces a key that the limiter may have, so the name is what stands before.
	name := strings.TrimSuffix(limiter.For("k").String(), "/k")
	key := strings.TrimPrefix(strings.TrimPrefix(limiter.String(), name), "/")
	f := &fleet{client: client, config: config, own: own, name: name, keys: keys, trouble: troubles{logger: config.Logger}}
	f.ctx, f.end = context.WithCancel(context.Background())
	return &Rate{fleet: f, limiter: limiter, key: key, bad: len(key) > longestKey}, nil
}

// For returns the Rate of one key of the limiter, for calls of [reserve.Limiter.For] of the
// same key. The rate of each key adapts on its own. For is cheap: call it for each use. Where
// the limiter refuses the key, reports do nothing.
func (r *Rate) For(key string) *Rate {
	return &Rate{fleet: r.fleet, limiter: r.limiter.For(key), key: key, bad: key == "" || len(key) > longestKey}
}

// String is that of the limiter.
func (r *Rate) String() string { return r.limiter.String() }

// Report tells of a call that was answered. The moment sent is that of [time.Now] after its
// turn had come. The call was refused if the API says that there are too many calls: with
// status 429, or with 503 or 529 where it is overloaded. A call that failed for another
// reason is not refused. Do not report calls that had no answer.
//
// It never waits for Redis and is cheap. The rate may change shortly after.
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

// Close ends what is under way and returns when that is done. Reports do nothing from then
// on, and the rate stays as it is until it expires. Close also closes every Rate that For
// made of the same one. It may be called more than once, and its error is always nil. Close
// the limiter and the client after it.
func (r *Rate) Close() error {
	f := r.fleet
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.trips.Wait()
	return nil
}

// begin announces a trip to Redis, unless the Rate is closed.
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

// redisKey is that of the state, beside those of the limiter.
func (r *Rate) redisKey() string {
	return lua.Keys(r.fleet.config.Prefix, r.limiter.Group(), r.fleet.name, "adapt", r.key)[0]
}

package reserve

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultPrefix begins the keys of a Config that does not set a prefix.
const DefaultPrefix = "fleetpace"

// Config says what a Limiter limits. Name and Limit are required.
type Config struct {
	// Name of the limit, from 1 to 128 bytes without braces. Every process that uses the same name,
	// prefix and Redis shares the limit. Without a Group, the name is the hash tag of all keys, so
	// one limit lives in one hash slot of a cluster.
	Name string

	// Group is for limits that one call may need together: see [All]. The group is the hash tag of
	// their keys, so limits of one group live in one hash slot of a cluster. Up to 128 bytes
	// without braces; in a group, the Name must not hold a colon. Default: none.
	Group string

	// Limit is the rate and the burst, or another [Kind] of limit. All processes should configure
	// the same limit under one name. If they do not, the slowest limit of the processes that make
	// calls is in force.
	//
	// Two kinds of limit under one name are an error of the later Limiter, in the same process or
	// in another one. All of its calls fail with [ErrInvalid], from the first call on, also during
	// an outage. The error ends within 6.5 s after the last process with the other kind has closed
	// its Limiter, has died, or has made no call for 10 s. So a deploy that changes the kind must stop
	// all old processes first: with another Name, old and new processes would have a queue each.
	Limit Limit

	// LimitOf returns the limit of a key, and its version, if customers have plans in a database. The
	// version is a number that grows with each change of the plan, from 1 to [MaxVersion]: for
	// example the time of its last change, in microseconds. For a key without a plan it returns the
	// version 0, and Config.Limit counts. Calls without a key have Config.Limit. Plans may be of any
	// [Kind], but slots do not mix with other kinds. If the kind or the calendar changes, the next turn
	// comes a second later, and permits that were used count: docs/plans.md says which.
	//
	// The newest version that any process has brought is in force for the whole fleet. New calls follow
	// it at once, and waiting calls within half a second, in their order. Granted turns keep their
	// moments, as with [Limiter.SetLimit]. A process whose LimitOf returns an older version follows,
	// and logs that. So do [Limiter.Limit], the highest cost of a call, and errors. If Redis loses
	// its data, the processes bring the plans back. [Limiter.SetLimit] with a key takes precedence
	// while it lasts. While nobody uses a key, Redis does not keep it, and a process forgets it after
	// 10,000 to 20,000 others.
	//
	// Every call looks its limit up, and where calls wait, the process looks it up every 0.4 s.
	// So LimitOf must be quick, safe for concurrent use, and must not block or use a Limiter: read a
	// map that another goroutine refreshes. If a plan is deleted, return Config.Limit with a newer
	// version. With the version 0, the last plan stays in force until all processes have forgotten
	// the key. If LimitOf panics, or its limit is not valid, the call fails with an [ErrInvalid] that
	// names the key, and calls that wait keep the limit that they have.
	LimitOf func(key string) (limit Limit, version int64)

	// Prefix of all keys, up to 128 bytes without braces. Default
	// [DefaultPrefix].
	Prefix string

	// Settles says that the cost of a call is an estimate, which [Reservation.Settle] corrects
	// after the call. Each call then takes more of Redis's time, and a turn of a paced limit may be
	// used for at most 40 ms after it is due.
	Settles bool

	// Prefetch lets this process take permits ahead of its calls, and is how long it may
	// hold them. While permits are stored, most calls then need no round trip. At most one minute;
	// half of the time in which the bucket fills is enough. It is for paced limits that do not
	// settle. It pays where a process calls the same limit, or the same key, several times within that
	// time. Otherwise it costs more than it saves.
	//
	// The default 0 is for processes whose calls use more than 3,000 permits per second of such a
	// limit. Such a process takes at most the permits that its calls use in 25 ms, and a sixteenth of what is
	// stored. It holds them for at most 50 ms. For a hundred permits that it uses, at most one is lost. Other
	// processes take none ahead.
	//
	// A process takes as many permits as its recent calls used in half of that time, and only permits that
	// are stored in the bucket. The limit stays exact. Meanwhile, other processes find fewer
	// permits: the bucket lacks the permits that were taken ahead, and the permits that refill
	// in that time. Unused permits return to the bucket. If the bucket has no room for them,
	// they are lost: see [PrefetchStats].
	Prefetch time.Duration

	// Lease is the earlier name of Prefetch.
	//
	// Deprecated: use Prefetch.
	Lease time.Duration

	// MaxWaiting is how many calls of the whole fleet may wait at this limit, or at each key of it. A
	// call beyond that fails at once with [ErrQueueFull]. Booked calls count, too: see [Joint.Book]. The
	// default 0 means any number. Each process applies its own value.
	MaxWaiting int

	// MaxPause is the longest pause that [Limiter.Pause] makes; a longer pause is shortened to it. It does not shorten a [Limiter.Stop].
	// Set it if you do not trust the times that the API asks for. The default 0 means no bound.
	MaxPause time.Duration

	// Urgent is the part of the limit that all urgent calls together get at most while other calls
	// wait, from 0.01 to 0.99: see [Limiter.Urgent]. Default 0.5.
	Urgent float64

	// Outage says what calls do while Redis is unreachable. By default they continue at this
	// process's part of the rate.
	Outage Outage

	// Logger gets what an operator should know. Calls may wait while it writes, so its handler must
	// be quick, and must not wait for a limiter. It logs that
	//
	//   - an outage began or ended, and how many permits were used without Redis
	//   - another process paused or overrode a limit
	//   - processes are configured with different limits
	//   - the process follows a newer plan of a key than its own: see LimitOf
	//   - Redis may evict the state
	//   - the process missed turns
	//
	// Limiters of one group use the Logger of the first Limiter for what they share. By default
	// nothing is logged, with exceptions on slog.Default():
	//
	//   - the process has never reached Redis (once)
	//   - processes are configured with different limits (once per change)
	//   - calls fail, because other processes use another kind of limit or another version
	//   - LimitOf fails while calls wait, or a limit changes without a newer version (once)
	Logger *slog.Logger
}

const (
	maxName = 128
	maxKey  = 512
	maxID   = 256
)

// noLogger is the Logger of a Config without one.
var noLogger = slog.New(slog.DiscardHandler)

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	c.Prefetch = cmp.Or(c.Prefetch, c.Lease)
	c.Outage = c.Outage.withDefaults()
	if c.Logger == nil {
		c.Logger = noLogger
	}
	return c
}

// Validate returns the error of [New], and makes no Limiter.
func (c Config) Validate(client redis.UniversalClient) error {
	err := validateClient(client)
	if err == nil {
		err = c.withDefaults().validate()
	}
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	return nil
}

func (c Config) validate() error {
	if c.Name == "" {
		return invalid("Config.Name", "must not be empty: it is what the fleet shares")
	}
	for _, f := range []struct{ field, value string }{
		{"Config.Name", c.Name}, {"Config.Prefix", c.Prefix}, {"Config.Group", c.Group},
	} {
		if len(f.value) > maxName {
			return invalid(f.field, "must be at most %d bytes, got %d", maxName, len(f.value))
		}
		if strings.ContainsAny(f.value, "{}") {
			return invalid(f.field, "must not hold a brace, got %q: the name is the hash tag of all keys", f.value)
		}
	}
	if c.Group != "" && strings.Contains(c.Name, ":") {
		return invalid("Config.Name", "must not hold a colon in a group, got %q", c.Name)
	}
	if c.Prefetch < 0 || c.Prefetch > time.Minute {
		return invalid("Config.Prefetch", "must be from 0 to 1m, got %v", c.Prefetch)
	}
	if c.MaxWaiting < 0 {
		return invalid("Config.MaxWaiting", "must be 0, for any number, or above, got %d", c.MaxWaiting)
	}
	if c.MaxPause < 0 {
		return invalid("Config.MaxPause", "must be 0, for none, or above, got %v", c.MaxPause)
	}
	if c.Urgent != 0 && !(c.Urgent >= leastUrgent && c.Urgent <= mostUrgent) {
		return invalid("Config.Urgent", "must be from %v to %v, or 0 for %v, got %v", leastUrgent, mostUrgent, defaultUrgent, c.Urgent)
	}
	if err := c.Outage.validate(); err != nil {
		return err
	}
	if c.Prefetch > 0 && c.Limit.kind != KindPaced {
		return invalid("Config.Prefetch", "is for paced limits only, got %v with a limit of kind %v", c.Prefetch, c.Limit.kind)
	}
	if c.Prefetch > 0 && c.Settles {
		return invalid("Config.Prefetch", "is not for a limit that settles, got %v with Config.Settles", c.Prefetch)
	}
	if err := c.earlier(); err != nil {
		return err
	}
	return c.Limit.check()
}

func validateClient(client redis.UniversalClient) error {
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return invalid("client", "must not be nil")
	}
	if _, ring := client.(*redis.Ring); ring {
		return invalid("client", "must not be a *redis.Ring: when a shard fails, a ring moves its keys to"+
			" another one without their state, and the limit would start over; use Sentinel or Cluster")
	}
	if !reflect.ValueOf(client).Comparable() {
		return invalid("client", "must be comparable, such as a pointer, got a %T", client)
	}
	return nil
}

func validateKey(key string) error {
	if key == "" || len(key) > maxKey {
		return invalid("key", "must be from 1 to %d bytes, got %d", maxKey, len(key))
	}
	return nil
}

func validateID(id string) error {
	if id == "" || len(id) > maxID {
		return invalid("id", "must be from 1 to %d bytes, got %d", maxID, len(id))
	}
	return nil
}

// validateCost checks the cost of a call under a limit. The name is what the caller calls the cost, and
// of is the name of the limit.
func (c *Config) validateCost(name, of string, limit Limit, n int) error {
	if n < 1 {
		return invalid(name, "must be at least 1, got %d", n)
	}
	burst := limit.MaxBurst()
	if n <= burst {
		return nil
	}
	if forms[limit.kind].whole {
		return &exceeds{invalid(name, "must be at most the permits of %q, which are %d (%v), got %d: split the call, or raise the limit",
			of, burst, limit, n)}
	}
	advice := "split the call"
	if larger := limit.Burst(n); larger.check() == nil {
		advice = fmt.Sprintf("let the limit have .Burst(%d), or %q as text, or split the call", n, larger)
	}
	return &exceeds{invalid(name, "must be at most the burst of %q, which is %d (%v), got %d: %s", of, burst, limit, n, advice)}
}

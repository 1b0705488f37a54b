// Package fleet reads the state of a fleet's limits, for people. The command line, the web page and the exporter of
// metrics share it. Reading changes nothing in Redis.
//
// Redis keeps only what the scripts need. The rest comes from the reports that processes send with their heartbeats:
// waiting calls and used permits, by key and flow. A report covers the 50 keys that the process has used last. For other
// keys, only Redis's own state is known.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// ErrUnknown says that no process has used a limit of this name recently.
var ErrUnknown = errors.New("no such limit")

// ErrUnused says that the limit behind a name is unknown, because no process uses it.
var ErrUnused = errors.New("no process has used the limit for ten minutes")

// Name is a limit's name, and its Config.Group.
type Name struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
}

// String is the name, after its group and a slash if it has a group.
func (n Name) String() string {
	if n.Group == "" {
		return n.Name
	}
	return n.Group + "/" + n.Name
}

// A Reader reads the state of the limits of one prefix from Redis. It is safe for concurrent use.
type Reader struct {
	client redis.UniversalClient
	prefix string

	// Flags end the commands that answers name, such as --prefix and its value.
	Flags []string

	// At is the address of the Redis, for errors.
	At string

	denied atomic.Bool // this user may not try whether Redis refuses to write …
	blind  atomic.Bool // … or may not ask whether it was full: each refusal would be an entry of the ACL log

	mu       sync.Mutex
	limiters map[use]*reserve.Limiter
}

// Trip returns how long Redis takes to answer.
func (r *Reader) Trip(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.client.Time(ctx).Err()
	return time.Since(began), classified("read the time", err)
}

// use says what a limiter is for. A user without the right to change a limit gets errors that look
// like an outage, so reading uses a separate limiter.
type use struct {
	Name
	acts bool
}

// New returns a Reader for the limits with a prefix. An empty prefix is reserve.DefaultPrefix.
func New(client redis.UniversalClient, prefix string) *Reader {
	return &Reader{client: client, prefix: cmp.Or(prefix, reserve.DefaultPrefix), limiters: map[use]*reserve.Limiter{}}
}

// Close closes the Reader's limiters. The client stays open.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.limiters {
		_ = l.Close()
	}
	clear(r.limiters)
}

// Command is a command line of fleetpace, with the Flags.
func (r *Reader) Command(words ...string) string { return command(words, r.Flags) }

// Names returns all limits that processes have used, in order.
func (r *Reader) Names(ctx context.Context) ([]Name, error) {
	fields, err := r.client.HGetAll(ctx, lua.Index(r.prefix)).Result() // an observer may not call HKEYS
	if err != nil {
		return nil, classified("read the names of the limits", err)
	}
	var names []Name
	for field := range fields {
		if group, name, ok := lua.NameOf(field); ok {
			names = append(names, Name{name, group})
		}
	}
	slices.SortFunc(names, func(x, y Name) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Group, y.Group)) })
	return names, nil
}

// classified adds to an error of Redis what it means, as package reserve does.
func classified(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, fault.Classify(err))
}

// Find returns the limit of this name. If several groups have one of that name, the text must be
// the group, a slash and the name. The error is an ErrUnknown that lists the names.
func (r *Reader) Find(ctx context.Context, text string) (Name, error) {
	names, err := r.Names(ctx)
	if err != nil {
		return Name{}, err
	}
	if i := slices.IndexFunc(names, func(n Name) bool { return n.String() == text }); i >= 0 {
		return names[i], nil
	}
	var found []string
	for _, n := range names {
		if n.Name == text {
			found = append(found, n.String())
		}
	}
	switch len(found) {
	case 1:
		return names[slices.IndexFunc(names, func(n Name) bool { return n.Name == text })], nil
	case 0:
		if group := inGroup(names, text); group != nil {
			return Name{}, fmt.Errorf("%w: %q is a group: name one of its limits (%s)", ErrUnknown, text, listed(group))
		}
		return Name{}, fmt.Errorf("%w: %q (%s)", ErrUnknown, text, r.known(names))
	}
	return Name{}, fmt.Errorf("%w: %q is in several groups: use one of %s", ErrUnknown, text, strings.Join(found, ", "))
}

// Group returns the limits of a group.
func (r *Reader) Group(ctx context.Context, group string) ([]Name, error) {
	names, err := r.Names(ctx)
	return inGroup(names, group), err
}

func inGroup(names []Name, group string) (in []Name) {
	for _, n := range names {
		if n.Group == group && group != "" {
			in = append(in, n)
		}
	}
	return in
}

// FindKey is Find for a text that may also have a key, after the limit and a slash.
func (r *Reader) FindKey(ctx context.Context, text string) (n Name, key string, err error) {
	n, unknown := r.Find(ctx, text)
	if !errors.Is(unknown, ErrUnknown) {
		return n, "", unknown
	}
	for i, c := range text {
		if c != '/' || i == len(text)-1 {
			continue
		}
		switch n, err = r.Find(ctx, text[:i]); {
		case err == nil:
			return n, text[i+1:], nil
		case !errors.Is(err, ErrUnknown):
			return n, "", err
		}
	}
	return Name{}, "", unknown
}

// known says which limits there are, if the one that was asked for is not among them.
func (r *Reader) known(names []Name) string {
	if len(names) == 0 {
		return r.None() + "; a limit appears when a process first uses it; check --redis and --prefix"
	}
	return fmt.Sprintf("%s under the prefix %q there are: %s; if the limit should be here, check --redis and --prefix", r.where(), r.prefix, listed(names))
}

func listed(names []Name) string {
	const most = 10
	var texts []string
	for _, n := range names[:min(len(names), most)] {
		texts = append(texts, n.String())
	}
	if len(names) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(texts, ", ")
}

// None says where no limit is known.
func (r *Reader) None() string {
	return fmt.Sprintf("no process has used a limit lately %s under the prefix %q", r.where(), r.prefix)
}

func (r *Reader) where() string {
	if r.At == "" {
		return "in this Redis"
	}
	return "in the Redis at " + r.At
}

// Limiter returns a limiter that changes or reads the limit in force: for Pause, SetLimit and
// State. It joins no queue, so this process does not count as part of the fleet.
func (r *Reader) Limiter(n Name, limit reserve.Limit) (*reserve.Limiter, error) {
	return r.limiter(use{n, true}, limit)
}

func (r *Reader) limiter(n use, limit reserve.Limit) (*reserve.Limiter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.limiters[n]; l != nil {
		if l.Limit() == limit {
			return l, nil
		}
		_ = l.Close()
	}
	l, err := reserve.New(r.client, reserve.Config{
		Name: n.Name.Name, Group: n.Group, Prefix: r.prefix, Limit: limit,
		// It knows no plan, so it learns the newest plan of a key from Redis.
		LimitOf: func(string) (reserve.Limit, int64) { return reserve.Limit{}, 0 },
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	r.limiters[n] = l
	return l, nil
}

// Package fleet reads how the limits of a whole fleet stand, for people: the command line, the
// web page and the exporter of metrics share this one reader. Reading changes nothing in Redis.
//
// What Redis keeps of a limit is only what the scripts need. Everything else comes from the
// reports that processes send with their heartbeats: who waits, by key and flow, and what was
// used. A report tells of the 50 keys that were used last; of other keys only Redis's own state
// is known.
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

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// ErrUnknown is of a limit that no process has used of late.
var ErrUnknown = errors.New("no such limit")

// ErrUnused is of a limit of which nobody knows how it is, as nobody uses it.
var ErrUnused = errors.New("no process has used the limit for ten minutes")

// Name is a limit's name, and its Config.Group.
type Name struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
}

// String is the name, behind its group and a slash if it has one.
func (n Name) String() string {
	if n.Group == "" {
		return n.Name
	}
	return n.Group + "/" + n.Name
}

// A Reader reads what Redis knows of the limits of one prefix. It is safe for concurrent use.
type Reader struct {
	client redis.UniversalClient
	prefix string

	mu       sync.Mutex
	limiters map[use]*reserve.Limiter
}

// use is what a limiter is for. Where the user may not act, attempts at it look like an outage:
// that must not hinder who looks.
type use struct {
	Name
	acts bool
}

// New returns a Reader of the limits with a prefix; empty: reserve.DefaultPrefix.
func New(client redis.UniversalClient, prefix string) *Reader {
	return &Reader{client: client, prefix: cmp.Or(prefix, reserve.DefaultPrefix), limiters: map[use]*reserve.Limiter{}}
}

// Close lets go of what the Reader has made. The client stays open.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.limiters {
		_ = l.Close()
	}
	clear(r.limiters)
}

// Names are those of all limits that processes have used, in order.
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

// classified says of an error of Redis what it means: as those of package reserve do.
func classified(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, fault.Classify(err))
}

// Find is the limit that a text names: its name or, where several groups have one of that name,
// the group, a slash and the name. The error is an ErrUnknown that says which names there are.
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
		return Name{}, fmt.Errorf("%w: %q (there are: %s)", ErrUnknown, text, listed(names))
	}
	return Name{}, fmt.Errorf("%w: %q is in several groups: say one of %s", ErrUnknown, text, strings.Join(found, ", "))
}

// FindKey is Find, or else the limit and the key that a text names as other answers do: the
// limit, a slash, the key.
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

func listed(names []Name) string {
	const most = 10
	if len(names) == 0 {
		return "none: a limit is there once a process has used it. Is it the right Redis and -prefix?"
	}
	var texts []string
	for _, n := range names[:min(len(names), most)] {
		texts = append(texts, n.String())
	}
	if len(names) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(texts, ", ")
}

// Limiter is one that acts on a limit that is in force: for Pause, SetLimit and State. It joins
// no queue, so the fleet does not count this process.
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
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	r.limiters[n] = l
	return l, nil
}

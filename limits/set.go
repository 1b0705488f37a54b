package limits

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/reserve"
)

// A Set has a limiter for each limit of a file. Get the limiter for each call or job, with
// [Set.Get], [Set.For] or [Set.All], because it changes when the file is read again. These
// methods take no lock.
//
// The zero Set is not usable; make one with [Load]. It is safe for concurrent use.
type Set struct {
	client   redis.UniversalClient
	path     string
	defaults reserve.Config
	logger   *slog.Logger
	table    atomic.Pointer[table]
	closing  chan struct{}

	mu     sync.Mutex // only one goroutine reads the file at a time
	made   map[settings]*reserve.Limiter
	closed bool
}

// table is the result of reading the file once. It never changes.
type table struct {
	names  []string // in the order of the file
	limits map[string]named
}

// named is a limit of a table.
type named struct {
	settings settings
	key      template
	flows    flows
	plans    *plans
	limiter  *reserve.Limiter
}

// Load reads a file of limits and makes their limiters. The defaults apply to fields that the file
// leaves out. Prefix, Logger, Urgent, and all of Outage except its Policy, come from the defaults
// alone. Name, Limit and LimitOf of the defaults must not be set. The Logger also gets changes of the file, and
// its errors; nil means slog.Default(). Load sends nothing to Redis. Close the Set at the end.
//
// The error is an [*Error] if the file is wrong, and an [ErrInvalid] if an argument is. If the
// file cannot be read, the error wraps an [*os.PathError].
func Load(client redis.UniversalClient, path string, defaults reserve.Config) (*Set, error) {
	if err := validateDefaults(client, defaults); err != nil {
		return nil, err
	}
	s := &Set{
		client:   client,
		path:     path,
		defaults: defaults,
		logger:   defaults.Logger,
		closing:  make(chan struct{}),
		made:     make(map[settings]*reserve.Limiter),
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.table.Store(&table{})
	data, err := read(path)
	if err == nil {
		_, err = s.take(data)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Check returns the error that [Load] would return for this file and these defaults. It needs
// no Redis, so it suits tests that run before a file is shipped.
func Check(path string, defaults reserve.Config) error {
	offline := redis.NewClient(&redis.Options{})
	defer offline.Close()
	if err := validateDefaults(offline, defaults); err != nil {
		return err
	}
	data, err := read(path)
	if err == nil {
		_, err = parse(offline, path, data, defaults)
	}
	return err
}

// Get returns the limiter of a limit, like For without values. The error is an [ErrUnknown], or an
// [ErrInvalid] if the limit has a key or a flow.
func (s *Set) Get(name string) (*reserve.Limiter, error) { return s.For(name, nil) }

// For returns the limiter of a limit for one tenant, host or account. It needs a value, which is
// not empty, for each name in the limit's key and flow, and for no other name. Values may hold any
// bytes, but the key that they make has at most 512. The error is an [ErrUnknown], or an
// [ErrInvalid] that lists the names without a value and the unknown names.
func (s *Set) For(name string, values map[string]string) (*reserve.Limiter, error) {
	limit, err := s.find(s.table.Load(), name)
	if err != nil {
		return nil, err
	}
	return limit.limiterFor(values)
}

// All returns the Joint of some limits, in this order, for calls that need all of them at once: see
// [reserve.All]. The limits must have the same group. It needs a value for each name in the keys
// and flows of all of them. Errors are those of [Set.For]; errors of reserve.All are an
// [ErrInvalid].
func (s *Set) All(values map[string]string, names ...string) (*reserve.Joint, error) {
	t := s.table.Load() // one version of the file for all limits
	var limiters []*reserve.Limiter
	unused := maps.Clone(values)
	for _, name := range names {
		limit, err := s.find(t, name)
		if err != nil {
			return nil, err
		}
		own := make(map[string]string)
		for _, key := range limit.names() {
			if value, ok := values[key]; ok {
				own[key] = value
				delete(unused, key)
			}
		}
		limiter, err := limit.limiterFor(own)
		if err != nil {
			return nil, err
		}
		limiters = append(limiters, limiter)
	}
	for _, key := range slices.Sorted(maps.Keys(unused)) {
		return nil, fmt.Errorf("limits: %w values for %q: no key of these limits has the name %.64q", ErrInvalid, names, key)
	}
	joint, err := reserve.All(limiters...)
	if err != nil {
		return nil, fmt.Errorf("limits: %w limits %q: %w", ErrInvalid, names, err)
	}
	return joint, nil
}

func (s *Set) find(t *table, name string) (named, error) {
	limit, ok := t.limits[name]
	if !ok {
		return named{}, fmt.Errorf("limits: %w %.128q: it is not in %s", ErrUnknown, name, s.path)
	}
	return limit, nil
}

func (n named) limiterFor(values map[string]string) (*reserve.Limiter, error) {
	err := fits(n.names(), values)
	var key, flow string
	if err == nil {
		key, err = n.key.fill(values, "key", longestKey)
	}
	if err == nil {
		flow, err = n.flows.flow.fill(values, "flow", longestFlow)
	}
	if err != nil {
		return nil, fmt.Errorf("limits: %w values for %q, where %s: %w", ErrInvalid, n.settings.name, n.wants(), err)
	}
	limiter := n.limiter
	if key != "" {
		limiter = limiter.For(key)
	}
	if flow != "" {
		limiter = limiter.Flow(flow).Weight(n.flows.weight(flow))
	}
	return limiter, nil
}

// names returns the names for which For needs values.
func (n named) names() []string {
	names := n.key.names()
	for _, name := range n.flows.flow.names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// wants says which templates need values.
func (n named) wants() string {
	var has []string
	if n.key.text != "" {
		has = append(has, fmt.Sprintf("its key is %q", n.key.text))
	}
	if n.flows.flow.text != "" {
		has = append(has, fmt.Sprintf("its flow is %q", n.flows.flow.text))
	}
	if len(has) == 0 {
		return "it has no key"
	}
	return strings.Join(has, " and ")
}

// Names returns the names of the limits, in the order of the file.
func (s *Set) Names() []string { return slices.Clone(s.table.Load().names) }

// Close closes all limiters that the Set has made, also those of earlier versions of the file:
// waits end with reserve.ErrClosed, and Watch returns. It may be called more than once.
func (s *Set) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()

	// No more limiters are made now. Each takes time to return its places, so they close together.
	var closers errgroup.Group
	for _, limiter := range s.made {
		closers.Go(limiter.Close)
	}
	return closers.Wait()
}

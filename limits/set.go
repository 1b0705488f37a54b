package limits

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/reserve"
)

// A Set has a limiter for each limit of a file. Ask it for each call or job, with
// [Set.Get] or [Set.For], which take no lock: the answer changes when the file is read
// again.
//
// The zero Set is not usable; make one with [Load]. It is safe for concurrent use.
type Set struct {
	client   redis.UniversalClient
	path     string
	defaults reserve.Config
	logger   *slog.Logger
	table    atomic.Pointer[table]
	closing  chan struct{}

	mu     sync.Mutex // one reads the file at a time
	made   map[settings]*reserve.Limiter
	closed bool
}

// table is what one reading of the file came to. It never changes.
type table struct {
	names  []string // in the order of the file
	limits map[string]named
}

// named is a limit of a table.
type named struct {
	settings settings
	key      template
	limiter  *reserve.Limiter
}

// Load reads a file of limits and makes their limiters. The defaults are what limits have
// that do not say otherwise; of their own they have Prefix, Logger, and in Outage all but
// Policy. Name and Limit must not be set. The logger hears of changes, too. Nothing is
// asked of Redis yet.
//
// The error is an [*Error] if the file is wrong, an [ErrInvalid] if an argument is, and
// one of package fs if the file can not be read.
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
		s.logger = slog.New(slog.DiscardHandler)
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

// Check is Load without a Redis: it returns the error that Load would return, for tests
// that run before a file is shipped.
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

// Get returns the limiter of a limit. It is For without values. The error is an
// [ErrUnknown], or an [ErrInvalid] if the limit has a key.
func (s *Set) Get(name string) (*reserve.Limiter, error) { return s.For(name, nil) }

// For returns the limiter of a limit for one tenant, host or account: the values are for
// the names in the limit's key, none of them empty. They may hold any bytes; the key must
// not have more than 512. A limit without a key wants none. The error is an [ErrUnknown],
// or an [ErrInvalid] that tells the names that lack or are too many.
func (s *Set) For(name string, values map[string]string) (*reserve.Limiter, error) {
	limit, ok := s.table.Load().limits[name]
	if !ok {
		return nil, fmt.Errorf("limits: %w %.128q: it is not in %s", ErrUnknown, name, s.path)
	}
	key, err := limit.key.fill(values)
	if err != nil {
		has := fmt.Sprintf("its key is %q", limit.key.text)
		if limit.key.text == "" {
			has = "it has no key"
		}
		return nil, fmt.Errorf("limits: %w values for %q, where %s: %w", ErrInvalid, name, has, err)
	}
	if key == "" {
		return limit.limiter, nil
	}
	return limit.limiter.For(key), nil
}

// Names are the names of the limits, in the order of the file.
func (s *Set) Names() []string { return slices.Clone(s.table.Load().names) }

// Close closes all limiters that the Set has made, also those that were replaced: waits
// end with reserve.ErrClosed, and Watch returns. It may be called more than once.
func (s *Set) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()

	// Nothing is made any more. Each gives back what waits, and that takes time.
	var closers errgroup.Group
	for _, limiter := range s.made {
		closers.Go(limiter.Close)
	}
	return closers.Wait()
}

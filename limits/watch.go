package limits

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Watch reads the file once per interval, which must be above 0. It reloads the file when the
// contents have changed and are the same twice in a row. So a change is in force after one to two
// intervals. An error is logged once, and the limits stay unchanged.
//
// Watch returns nil when the context ends or the Set is closed, and an [ErrInvalid] for a wrong
// interval.
func (s *Set) Watch(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return fmt.Errorf("limits: %w interval: must be above 0, got %v", ErrInvalid, interval)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last, done sight
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.closing:
			return nil
		case <-ticker.C:
		}
		now := look(s.path)
		if now == last && now != done {
			done = now
			s.follow()
		}
		last = now
	}
}

// sight is the state of a file: its contents, or why it cannot be read.
type sight struct {
	digest  [sha256.Size]byte
	trouble string
}

func look(path string) sight {
	data, err := read(path)
	if err != nil {
		return sight{trouble: err.Error()}
	}
	return sight{digest: sha256.Sum256(data)}
}

// follow reloads the file. It changes nothing if the file says the same as before.
func (s *Set) follow() {
	if _, err := s.Reload(); err != nil && !errors.Is(err, reserve.ErrClosed) {
		s.logger.Error("fleetpace: the file of limits has errors and is ignored; the limits stay unchanged",
			"file", s.path, "error", err)
	}
}

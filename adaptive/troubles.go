package adaptive

import (
	"log/slog"
	"sync"
	"time"
)

// troubles logs what goes wrong, of all keys once a second at the most.
type troubles struct {
	logger *slog.Logger

	mu     sync.Mutex
	next   time.Time // not to be logged before this
	silent int       // those since the last that was logged
}

func (t *troubles) report(limit string, err error) {
	t.mu.Lock()
	now := time.Now()
	if now.Before(t.next) {
		t.silent++
		t.mu.Unlock()
		return
	}
	silent := t.silent
	t.next, t.silent = now.Add(retryAfter), 0
	t.mu.Unlock()
	t.logger.Warn("adaptive: the rate could not follow what was reported", "limit", limit, "error", err, "unreported", silent)
}

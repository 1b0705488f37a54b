package adaptive

import (
	"log/slog"
	"sync"
	"time"
)

// troubles logs failures, for all keys together at most once a second.
type troubles struct {
	logger *slog.Logger

	mu     sync.Mutex
	next   time.Time // the earliest moment of the next line
	silent int       // failures since the last line
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
	t.logger.Warn("adaptive: reports could not reach Redis; the rate stays unchanged until they do", "limit", limit, "error", err, "unreported", silent)
}

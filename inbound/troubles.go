package inbound

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// troubles logs errors, at most once a second, so that clients cannot fill a disk.
type troubles struct {
	logger *slog.Logger

	mu     sync.Mutex
	next   time.Time // not to be logged before this
	silent int       // errors since the last one that was logged
}

const troublesPause = time.Second

func (t *troubles) report(ctx context.Context, err error) {
	t.mu.Lock()
	now := time.Now()
	if now.Before(t.next) {
		t.silent++
		t.mu.Unlock()
		return
	}
	silent := t.silent
	t.next, t.silent = now.Add(troublesPause), 0
	t.mu.Unlock()
	t.logger.WarnContext(ctx, "inbound: the limiter has not decided on a request", "error", err, "unreported", silent)
}

package asker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause after the nth failure in a row.
func backoff(n int) time.Duration {
	pause := min(50*time.Millisecond<<min(n, 5), time.Second)
	return time.Duration((0.5 + rand.Float64()) * float64(pause))
}

// rest lets a time pass; false: the Asker was closed meanwhile.
func (a *Asker) rest(pause time.Duration) bool { return a.restWith(context.Background(), pause) }

// restWith is rest for a caller whose context may end meanwhile: false, too.
func (a *Asker) restWith(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-a.life.Done():
		return false
	}
}

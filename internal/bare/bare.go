// Package bare measures what the machine alone does to a process that only sleeps.
// Figures about time stand beside it: who reads one that is out of line can tell a busy
// machine from a fault. It knows nothing of any limiter, and nothing is judged by it.
package bare

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

const (
	nap = 5 * time.Millisecond

	// late is from when on a wake-up counts as time that was lost: any machine wakes a
	// sleeper a little late.
	late = 5 * time.Millisecond
)

// Sleeper sleeps for 5 ms again and again, and notes how late it wakes. It is safe for
// concurrent use.
type Sleeper struct {
	mu            sync.Mutex
	watched       time.Duration // all of it
	longest, lost time.Duration
}

// Watch starts a Sleeper, which ends with the context.
func Watch(ctx context.Context) *Sleeper { return watch(ctx, time.Sleep) }

func watch(ctx context.Context, sleep func(time.Duration)) *Sleeper {
	s := &Sleeper{}
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			sleep(nap)
			s.note(time.Since(began))
		}
	}()
	return s
}

func (s *Sleeper) note(slept time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched += slept
	s.longest = max(s.longest, slept-nap)
	if slept-nap > late {
		s.lost += slept - nap
	}
}

// Longest is how late the latest wake-up so far was.
func (s *Sleeper) Longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest
}

// Share is the part of the time so far, from 0 to 1, that was lost to wake-ups of more
// than 5 ms too late.
func (s *Sleeper) Share() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.lost) / float64(max(1, s.watched))
}

// Figures are what a report has of a Sleeper, to be embedded in its JSON.
type Figures struct {
	LongestMillis float64 `json:"bare_longest_ms"`
	LateShare     float64 `json:"bare_late_share"`
}

// Figures are rounded to a tenth of a millisecond and of a thousandth.
func (s *Sleeper) Figures() Figures {
	return Figures{
		LongestMillis: math.Round(float64(s.Longest())/float64(time.Millisecond)*10) / 10,
		LateShare:     math.Round(s.Share()*1e4) / 1e4,
	}
}

// Text is a line for people.
func (f Figures) Text() string {
	return fmt.Sprintf("a bare sleeper beside it woke up to %.1f ms late, and lost %.2f %% of the time by that", f.LongestMillis, 100*f.LateShare)
}

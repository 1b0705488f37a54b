package transport

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// firstBackoff is the pause after the first refusal that names no moment.
const firstBackoff = time.Second

// backoffs are the pauses of limits whose provider refuses calls and names no moment: each is twice
// as long as the one before, until a call succeeds.
type backoffs struct {
	mu   sync.Mutex
	most time.Duration
	of   *lru.Cache[string, backoff] // by limit
}

// backoff is the last pause of a limit.
type backoff struct {
	until time.Time
	lasts time.Duration
}

func newBackoffs(most time.Duration) *backoffs {
	of, err := lru.New[string, backoff](mostKnown)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &backoffs{most: most, of: of}
}

// refused returns how long a limit is to rest after a call was refused that was sent at a moment. 0: it
// rests already, as others were refused that were under way at the same time.
func (b *backoffs) refused(limiter *reserve.Limiter, sent time.Time) time.Duration {
	name := limiter.Group() + " " + limiter.String()
	b.mu.Lock()
	defer b.mu.Unlock()
	last, _ := b.of.Get(name)
	if sent.Before(last.until) {
		return max(0, time.Until(last.until))
	}
	next := min(max(2*last.lasts, firstBackoff), b.most)
	b.of.Add(name, backoff{time.Now().Add(next), next})
	return next
}

// succeeded ends the backoff of a limit, if the call was sent after its last pause.
func (b *backoffs) succeeded(limiter *reserve.Limiter, sent time.Time) {
	if b.of.Len() == 0 {
		return
	}
	name := limiter.Group() + " " + limiter.String()
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.of.Peek(name); ok && !sent.Before(last.until) {
		b.of.Remove(name)
	}
}

// backOff adds to the pauses that an answer asks for those of a refusal that names no moment. An
// Adapter answers to a refusal with a lower rate instead, if it is about the rate.
func (t *Transport) backOff(s sent, c *call, advice headers.Advice, each []time.Duration) {
	switch {
	case advice.Cached:
	case !advice.Refused && s.StatusCode < 500:
		for _, l := range c.limits {
			t.backoffs.succeeded(l, s.at)
		}
	case advice.Refused && !advice.Named && (c.Adapt == nil || advice.Final) && longest(each) == 0:
		for i, l := range c.limits {
			if c.rests[i] {
				each[i] = t.backoffs.refused(l, s.at)
			}
		}
	}
}

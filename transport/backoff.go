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

// backoffs are the pauses that refusals cause which name no moment. Each pause is twice as long as
// the one before, until a call succeeds.
type backoffs struct {
	mu   sync.Mutex
	most time.Duration               // the longest pause
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

// refused returns how long to pause a limit after a refusal of a call that was sent at this moment.
// It does not start another pause if the call was sent before the end of the last one: then it
// returns the rest of that pause.
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

// lapse ends the backoff of a limit, if a call was sent after its last pause, and after the same time once more. The
// successes of calls that others send are not heard.
func (b *backoffs) lapse(limiter *reserve.Limiter, sent time.Time) {
	name := limiter.Group() + " " + limiter.String()
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.of.Peek(name); ok && sent.After(last.until.Add(last.lasts)) {
		b.of.Remove(name)
	}
}

// backOff adds a pause for a refusal that names no moment. With an Adapter, a refusal because of
// the rate adds none: the Adapter lowers the rate instead.
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

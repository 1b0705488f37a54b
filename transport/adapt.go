package transport

import (
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// Adapter hears how calls are answered. *adaptive.Rate is one. It must be safe for
// concurrent use, and must not take long: the caller waits for it. Where a call needs
// several limits, the Adapter belongs to the one whose String equals its own, or else to
// the first.
type Adapter interface {
	// ReportN is told when a call of n permits was sent, after it had its turn, and
	// whether it was refused because there are too many calls.
	ReportN(sent time.Time, n int, refused bool)
}

// overloaded is what Anthropic and some others answer in place of 503.
const overloaded = 529

// adapt tells the turn's Adapter of an answer. Whoever is overloaded refuses calls, too,
// also where it does not know until when. What is refused for good, as the account has no
// credit, says nothing of the rate, nor does an answer from a cache.
func (c *call) adapt(sent time.Time, status int, advice headers.Advice) {
	if c.Adapt == nil || advice.Cached || advice.Refused && advice.Final {
		return
	}
	c.Adapt.ReportN(sent, c.Costs[c.adaption], advice.Refused || status == http.StatusServiceUnavailable || status == overloaded)
}

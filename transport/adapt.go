package transport

import (
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// Adapter gets the result of each call. *adaptive.Rate is one. It must be safe for concurrent use
// and return quickly, because the caller waits for it. If a call needs several limits, the Adapter
// belongs to the limit with the same String, otherwise to the first one.
type Adapter interface {
	// ReportN reports a call of n permits that was sent at this moment, after its turn had come.
	// The call was refused if the provider says that there are too many calls.
	ReportN(sent time.Time, n int, refused bool)
}

// statusOverloaded is the status that Anthropic and some other providers use in place of 503.
const statusOverloaded = 529

// adapt reports a response to the turn's Adapter. An overloaded provider refuses the call, too,
// even if it does not say when to try again. Some responses say nothing about the rate: those from
// a cache, and final refusals, such as for an account without credit.
func (c *call) adapt(sent time.Time, status int, advice headers.Advice) {
	if c.Adapt == nil || advice.Cached || advice.Refused && advice.Final {
		return
	}
	c.Adapt.ReportN(sent, c.Costs[c.adaption], advice.Refused || status == http.StatusServiceUnavailable || status == statusOverloaded)
}

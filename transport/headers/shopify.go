package headers

import (
	"net/http"
	"strings"
	"time"
)

// shopify reads "32/40": 32 of 40 are used, in a leaky bucket. How fast it leaks depends on the
// shop's plan, and the response does not say it.
func shopify(header http.Header, _ time.Time) []Window {
	before, after, _ := strings.Cut(header.Get("X-Shopify-Shop-Api-Call-Limit"), "/")
	used, ok1 := number(before)
	limit, ok2 := number(after)
	if !ok1 || !ok2 || limit <= 0 {
		return nil
	}
	return []Window{{Name: "shop", Unit: Requests, Limit: limit, Remaining: max(limit-used, 0), Refills: true}}
}

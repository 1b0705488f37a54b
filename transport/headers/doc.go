// Package headers reads what an answer of a rate-limited API says about its
// limits: whether the call was refused, when to come back, and what is left. It
// does no I/O and keeps nothing.
//
//	response, err := client.Do(request)
//	if err != nil {
//		return err
//	}
//	defer response.Body.Close()
//	advice := headers.Read(response.StatusCode, response.Header, time.Now())
//	if advice.Refused && advice.After > 0 {
//		// nobody should call for advice.After
//	}
//	for _, w := range advice.Windows {
//		log.Printf("%s: %.0f of %.0f are left", w.Name, w.Remaining, w.Limit)
//	}
//
// # What it understands
//
//	Retry-After                    seconds, also with a fraction; a moment, as an HTTP
//	                               date, as RFC 3339 has it, or since 1970; 1m30s
//	Retry-After-Ms,                milliseconds; they win over Retry-After, which
//	X-Ms-Retry-After-Ms,           is the same rounded
//	X-Amz-Retry-After
//	RateLimit, RateLimit-Policy    the IETF draft, as structured fields, and the
//	                               dictionary of its older versions
//	RateLimit-Limit, -Remaining,   the fields of before, also with X- and as
//	-Reset                         X-Rate-Limit-…; policies in them, too. The reset
//	                               has all forms of Retry-After
//	X-RateLimit-Resource           GitHub: the name of the limit
//	X-RateLimit-Limit-Requests …   OpenAI, Groq, Cerebras, Azure: one set for each
//	                               name, such as requests, tokens, requests-day
//	X-RateLimit-FillRate,          Atlassian Data Center: a bucket, and how fast it fills
//	X-RateLimit-Interval-Seconds
//	RateLimit-Reason               Jira and Confluence Cloud
//	Anthropic-RateLimit-…          one set for each name
//	X-HubSpot-RateLimit-…          HubSpot: "rolling" and "daily"
//	X-Shopify-Shop-Api-Call-Limit  Shopify: used/limit
//	Stripe-Rate-Limited-Reason,    Stripe; X-Should-Retry is what others say
//	Stripe-Should-Retry
//	Age, X-From-Cache              the answer is from a cache, and says nothing of limits
//
// # What it does not do
//
// It never makes a number up. What an answer does not say, or says in a way that
// can be read in two ways, is unknown. Values that are no sensible numbers are
// ignored: nothing in an answer makes Read panic. Waits of more than [Longest] are
// cut to it.
//
// # Clocks
//
// Some providers say a moment and not a duration. Then the wait is the time from the
// Date of the same answer to that moment, so a wrong clock on either side does not
// matter. A Date is rounded down to a second, which makes waits longer by up to a
// second and never shorter. Without a Date the local clock counts.
package headers

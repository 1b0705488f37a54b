// Package headers reads what a response of a rate-limited API says about its limits: whether
// the call was refused, when to try again, and what is left. It does no I/O and keeps no
// state.
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
// # Headers
//
//	Retry-After                    seconds, also with a fraction; a moment, as an HTTP
//	                               date, in RFC 3339 or as Unix time; 1m30s
//	Retry-After-Ms,                milliseconds; used in place of Retry-After, which is
//	X-Ms-Retry-After-Ms,           the same, rounded
//	X-Amz-Retry-After
//	RateLimit, RateLimit-Policy    the IETF draft, as structured fields, and the
//	                               dictionary of its older versions
//	RateLimit-Limit, -Remaining,   the older headers, also with X- and as
//	-Reset                         X-Rate-Limit-…, with policies in them. The reset
//	                               has all forms of Retry-After
//	X-RateLimit-Resource           GitHub: the name of the limit
//	X-RateLimit-Limit-Requests …   OpenAI, Groq, Cerebras, Azure: one set for each
//	                               name, such as requests, tokens, requests-day
//	X-RateLimit-FillRate,          Atlassian Data Center: a token bucket and its rate
//	X-RateLimit-Interval-Seconds
//	RateLimit-Reason               Jira and Confluence Cloud: why the call was refused
//	Anthropic-RateLimit-…          one set for each name
//	X-HubSpot-RateLimit-…          HubSpot: "rolling" and "daily"
//	X-Shopify-Shop-Api-Call-Limit  Shopify: used/limit
//	Stripe-Rate-Limited-Reason,    Stripe; others send X-Should-Retry
//	Stripe-Should-Retry
//	Age, X-From-Cache              the response is from a cache and says nothing of limits
//
// # Unknown and wrong values
//
// Read never guesses. A value that a response does not state, or states ambiguously, is
// unknown. Values that are not sensible numbers are ignored. No response makes Read panic.
// Waits of more than [Longest] are cut to it.
//
// # Clocks
//
// Some providers state a moment and not a duration. Then the wait is the time from the Date
// of the same response to that moment, so a wrong clock on either side does not matter. A
// Date is rounded down to a second, so a wait may be up to a second too long, and is never
// too short. Without a Date, Read uses the local clock.
package headers

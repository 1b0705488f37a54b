package provider

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Handler puts the provider in front of next. Each request costs one permit and is judged when it
// arrives, before its body is read. A refused request does not reach next. It gets status 429, a
// Retry-After in whole seconds (rounded up, at least 1) and a short JSON body.
func (p *Provider) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok, retryAfter := p.Judge(1)
		if ok {
			next.ServeHTTP(w, r)
			return
		}
		seconds := retryAfter / time.Second
		if retryAfter%time.Second > 0 {
			seconds++
		}
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		// The verdict stands, also if the client is gone.
		_, _ = fmt.Fprintf(w, `{"error":"rate limit exceeded","retry_after_seconds":%d}`+"\n", seconds)
	})
}

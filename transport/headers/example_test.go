package headers_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

func ExampleRead() {
	header := http.Header{}
	header.Set("Retry-After-Ms", "1250")
	header.Set("X-RateLimit-Limit-Requests", "500")
	header.Set("X-RateLimit-Remaining-Requests", "0")
	header.Set("X-RateLimit-Reset-Requests", "1m0s")

	advice := headers.Read(http.StatusTooManyRequests, header, time.Now())
	fmt.Println("refused:", advice.Refused, "come back in", advice.After)
	for _, w := range advice.Windows {
		fmt.Printf("%s: %.0f left of %.0f in %v\n", w.Name, w.Remaining, w.Limit, w.Period)
	}
	// Output:
	// refused: true come back in 1.25s
	// requests: 0 left of 500 in 1m0s
}

// A limiter goes by the long run of a window.
func ExampleWindow_Rate() {
	header := http.Header{}
	header.Set("RateLimit-Policy", `"default";q=600;w=60`)

	for _, w := range headers.Read(http.StatusOK, header, time.Now()).Windows {
		fmt.Printf("%s: %.0f/s\n", w.Name, w.Rate())
	}
	// Output: default: 10/s
}

// A window that gives all back at once is waited for to its end, a bucket for as many units as
// a call needs.
func ExampleWindow_Wait() {
	window := headers.Window{Limit: 600, Remaining: 0, Reset: time.Minute}
	bucket := headers.Window{Limit: 600, Remaining: 0, Reset: time.Minute, Refills: true}
	left := headers.Window{Limit: 600, Remaining: 3, Reset: time.Minute}
	fmt.Println("window:", window.Wait(1))
	fmt.Println("bucket:", bucket.Wait(1), "for one unit,", bucket.Wait(10), "for ten")
	fmt.Println("with units left:", left.Wait(1))
	// Output:
	// window: 1m0s
	// bucket: 100ms for one unit, 1s for ten
	// with units left: 0s
}

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

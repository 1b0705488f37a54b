package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

func Example_http() {
	limiter, err := reserve.New(client, reserve.Config{Name: "http", Limit: reserve.PerSecond(60)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	ctx, seconds := context.Background(), 60
	err = limiter.Pause(ctx, time.Duration(seconds)*time.Second, "Retry-After")
	if err != nil {
		fmt.Println(err)
	}
	state, err := limiter.State(ctx)
	fmt.Println(state.PauseReason, err)
	fmt.Println(finding(limiter))
	// Output:
	// Retry-After <nil>
	// <nil>
}

func Example_httpContext() {
	ctx, tenant, permits := context.Background(), "acme", 3
	ctx = transport.WithFlow(ctx, tenant)  // tenants share the limit
	ctx = transport.WithUrgent(ctx)        // somebody waits for it
	ctx = transport.WithCost(ctx, permits) // instead of one permit
	fmt.Println(ctx.Err())
	// Output: <nil>
}

func finding(limiter *reserve.Limiter) error {
	rate, err := adaptive.New(client, limiter, adaptive.Config{Floor: reserve.PerSecond(1), Ceiling: reserve.PerSecond(80)})
	if err != nil {
		return err
	}
	paced, err := transport.New(transport.Config{Limiter: limiter, Adapt: rate}) // or rate.Report(sent, refused) after each call
	if err != nil {
		return err
	}
	_ = &http.Client{Transport: paced}
	return rate.Close()
}

// A client that bounds the answer and not the wait, beside one whose Timeout counts both.
func Example_httpTimeouts() {
	limiter, err := reserve.New(client, reserve.Config{Name: "http-timeouts", Limit: reserve.PerHour(1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	api, err := unhurried(limiter)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.CloseIdleConnections()
	answer, err := api.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, answer.Body.Close())
	api.Timeout = 30 * time.Second
	_, err = api.Get(server.URL) //nolint:bodyclose // there is no answer
	fmt.Println(errors.Is(err, reserve.ErrWouldMissDeadline))
	// Output:
	// 200 OK <nil>
	// true
}

func unhurried(limiter *reserve.Limiter) (*http.Client, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 30 * time.Second // counts from when the request was sent
	paced, err := transport.New(transport.Config{Limiter: limiter, Base: base})
	if err != nil {
		return nil, err
	}
	api := &http.Client{Transport: paced} // without a Timeout
	return api, nil
}

// What is refused is sent again when the API says so.
func Example_httpRetries() {
	limiter, err := reserve.New(client, reserve.Config{Name: "http-retries", Limit: reserve.PerSecond(60)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "0.02")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	paced, err := retrying(limiter)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer paced.CloseIdleConnections()
	answer, err := (&http.Client{Transport: paced}).Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, calls, answer.Body.Close())
	// Output: 200 OK 2 <nil>
}

func retrying(limiter *reserve.Limiter) (*transport.Transport, error) {
	paced, err := transport.New(transport.Config{
		Limiter:  limiter,
		Retry:    transport.Retry{Max: 3, MaxWait: time.Minute, Statuses: []int{502, 504}},
		MaxPause: 10 * time.Minute, // the longest pause that one response may cause
	})
	if err != nil {
		return nil, err
	}
	return paced, nil
}

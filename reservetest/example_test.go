package reservetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/worker"
)

// t is the *testing.T of your test.
var t = new(testing.T)

func ExampleNew() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(2)})
		began := time.Now()
		for range 3 {
			if err := limiter.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Println("a call after", time.Since(began).Round(time.Second))
		}
	})
	// Output:
	// a call after 0s
	// a call after 30s
	// a call after 1m0s
}

// Your code makes its limiters itself: they are closed before the test ends.
func ExampleServer_Client() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter, err := reserve.New(server.Client(), reserve.Config{Name: "api", Limit: reserve.PerMinute(2)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = limiter.Close() }()
		for range 2 {
			fmt.Println(limiter.Allow(t.Context()))
		}
	})
	// Output:
	// true <nil>
	// false <nil>
}

// A fleet of asynq works for a minute of simulated time.
func ExampleServer_MakeRedisClient() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		client := asynq.NewClient(server)
		for range 3 {
			if _, err := client.Enqueue(asynq.NewTask("fetch", nil)); err != nil {
				t.Fatal(err)
			}
		}

		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(6)})
		w, err := worker.New(limiter, worker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		config := asynq.Config{LogLevel: asynq.FatalLevel}
		if err := w.Apply(&config); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			fmt.Println("a task after", time.Since(began).Round(time.Second))
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := w.Run(ctx, asynq.NewServer(server, config), handler); err != nil {
			t.Fatal(err)
		}
	})
	// Output:
	// a task after 0s
	// a task after 10s
	// a task after 20s
}

// Each limiter is that of another process: they share the limit.
func ExampleServer_Limiter() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		config := reserve.Config{Name: "api", Limit: reserve.PerMinute(6)}
		one, other := server.Limiter(config), server.Limiter(config)
		began := time.Now()
		for _, process := range []*reserve.Limiter{one, other, one} {
			if err := process.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Println(time.Since(began).Round(time.Second))
		}
	})
	// Output:
	// 0s
	// 10s
	// 20s
}

func ExampleServer_Joint() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		joint := server.Joint(
			reserve.Config{Name: "requests", Group: "llm", Limit: reserve.PerMinute(60)},
			reserve.Config{Name: "tokens", Group: "llm", Limit: reserve.PerMinute(1000).Burst(1000)},
		)
		began := time.Now()
		for range 3 {
			if err := joint.Wait(t.Context(), 1, 500); err != nil {
				t.Fatal(err)
			}
			fmt.Println(time.Since(began).Round(time.Second))
		}
	})
	// Output:
	// 0s
	// 1s
	// 30s
}

func ExampleServer_Outage() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{
			Name: "api", Limit: reserve.PerSecond(10), Outage: reserve.Outage{Policy: reserve.PolicyFail},
		})
		fmt.Println("there:", limiter.Wait(t.Context()))
		server.Outage(time.Minute)
		fmt.Println("away: ", errors.Is(limiter.Wait(t.Context()), reserve.ErrUnavailable))
		time.Sleep(2 * time.Minute)
		fmt.Println("back: ", limiter.Wait(t.Context()))
	})
	// Output:
	// there: <nil>
	// away:  true
	// back:  <nil>
}

func ExampleServer_Delay() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		client := server.Client()
		client.Ping(t.Context()) // connects
		server.Delay(20 * time.Millisecond)
		began := time.Now()
		fmt.Println(client.Ping(t.Context()).Val(), "after", time.Since(began))
	})
	// Output: PONG after 40ms
}

// A permit whose answer was lost is not taken twice.
func ExampleServer_LoseReplies() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerDay(2).Burst(2)})
		server.LoseReplies(1)
		for range 3 {
			fmt.Println(limiter.Allow(t.Context()))
		}
	})
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

// A limiter knows what it was given of late.
func ExampleServer_LoseData() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(1)})
		fmt.Println(limiter.Allow(t.Context()))
		server.LoseData()
		fmt.Println(limiter.Allow(t.Context()))
	})
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleServer_StepClock() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		client := server.Client()
		server.StepClock(-time.Hour)
		fmt.Println("now:     ", time.Now().UTC().Format(time.TimeOnly))
		fmt.Println("in Redis:", client.Time(t.Context()).Val().UTC().Format(time.TimeOnly))
	})
	// Output:
	// now:      00:00:00
	// in Redis: 23:00:00
}

func ExampleNewAPI() {
	synctest.Test(t, func(t *testing.T) {
		api := reservetest.NewAPI(t, reserve.PerMinute(6).Burst(2))
		for range 3 {
			response, err := api.Client().Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%d %q\n", response.StatusCode, response.Header.Get("Retry-After"))
		}
		fmt.Println("refused:", api.Refused())
	})
	// Output:
	// 200 ""
	// 200 ""
	// 429 "10"
	// refused: 1
}

func ExampleNewAPIHandler() {
	synctest.Test(t, func(t *testing.T) {
		items := http.NewServeMux()
		items.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id": %q}`, r.PathValue("id"))
		})
		api := reservetest.NewAPIHandler(t, items, reserve.PerMinute(1))
		response, err := api.Client().Get("https://api.example/items/7")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		fmt.Println(string(body), err)
	})
	// Output: {"id": "7"} <nil>
}

// With real connections, outside of a bubble.
func ExampleAPI_ServeHTTP() {
	api := reservetest.NewAPI(t, reserve.PerHour(1))
	server := httptest.NewServer(api)
	defer server.Close()
	for range 2 {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	// Output:
	// 200
	// 429
}

// A client whose requests take turns never hears a 429.
func ExampleAPI_RoundTripper() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(20)})
		api := reservetest.NewAPI(t, reserve.PerMinute(20))
		paced, err := transport.New(transport.Config{Limiter: limiter, Base: api.RoundTripper()})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: paced}
		for range 3 {
			response, err := client.Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		}
		for _, r := range api.Requests() {
			fmt.Println(r.At.Format(time.TimeOnly), r.Method, r.Path, r.Refused)
		}
	})
	// Output:
	// 00:00:00 GET /items false
	// 00:00:03 GET /items false
	// 00:00:06 GET /items false
}

func ExampleRecordTurns() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		turns := reservetest.RecordTurns(t)
		limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(6).Burst(3)})
		for _, tenant := range []string{"acme", "acme", "globex"} {
			if err := limiter.For(tenant).WaitN(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		for _, turn := range turns() {
			fmt.Println(turn.At.Format(time.TimeOnly), turn.Limit, turn.Cost)
		}
	})
	// Output:
	// 00:00:00 api/acme 3
	// 00:00:30 api/acme 3
	// 00:00:30 api/globex 3
}

// Code that takes an http.Client calls the API, whatever the address.
func ExampleAPI_Client() {
	synctest.Test(t, func(t *testing.T) {
		api := reservetest.NewAPI(t, reserve.PerMinute(1))
		client := api.Client()
		for range 2 {
			response, err := client.Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(response.Status)
		}
		time.Sleep(time.Minute) // of simulated time
		response, err := client.Get("https://other.example/")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(response.Status)
	})
	// Output:
	// 200 OK
	// 429 Too Many Requests
	// 200 OK
}

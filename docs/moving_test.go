package docs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/transport"
)

// What people do today: asynq's recipe, with a limiter in each process.
func Example_movingRecipe() {
	config := asynq.Config{Concurrency: 10}
	handler := recipe(&config)
	var err error
	for err == nil { // until the bucket is empty
		err = handler.ProcessTask(context.Background(), asynq.NewTask("geocode", nil))
	}
	delay := config.RetryDelayFunc(0, err, nil)
	fmt.Println(err, config.IsFailure(err), delay < 10*time.Second)
	// Output: too early false true
}

func geocode(context.Context, *asynq.Task) error { return nil }

func recipe(config *asynq.Config) asynq.Handler {
	limiter := rate.NewLimiter(50, 5) // of this process
	errTooEarly := errors.New("too early")
	config.IsFailure = func(err error) bool { return err != nil && !errors.Is(err, errTooEarly) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if errors.Is(err, errTooEarly) {
			return rand.N(10 * time.Second)
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if !limiter.Allow() {
			return errTooEarly
		}
		return geocode(ctx, task)
	})
}

// A limit for each key, with the burst that redis_rate has.
func Example_movingKeys() {
	fmt.Println(projectTurn(context.Background(), "project:123"))
	// Output: <nil>
}

func projectTurn(ctx context.Context, project string) error {
	limiter, err := reserve.New(client, reserve.Config{Name: "projects", Limit: reserve.PerSecond(10).Burst(10)}) // once
	if err != nil {
		return err
	}
	defer limiter.Close()
	if err := limiter.For(project).Wait(ctx); err != nil {
		return err
	}
	return nil
}

// A handler that refuses: its headers, the plan of a customer, a reset, and as many permits as are left.
func TestMovingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := handled(reservetest.New(t).Client(), func(customer string) (reserve.Limit, int64) {
			if customer == "acme" {
				return reserve.PerMinute(1).Burst(2), 1
			}
			return reserve.Limit{}, 0
		})
		require.NoError(t, err)
		defer limiter.Close()
		mux := http.NewServeMux()
		mux.Handle("/{customer}", &api{limiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
		get := func(customer string) string {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+customer, nil))
			said := []string{strconv.Itoa(w.Code)}
			for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
				said = append(said, w.Header().Get(name))
			}
			return strings.TrimSpace(strings.Join(said, " "))
		}
		assert.Equal(t, "200 2 1 60", get("acme"))
		assert.Equal(t, "200 2 0 120", get("acme"))
		assert.Equal(t, "429 2 0 120 60", get("acme"))
		assert.Equal(t, "200 10 9 1", get("globex"))
		assert.Equal(t, "400", get(strings.Repeat("x", 600)), "a later attempt would fail, too")
		require.NoError(t, reset(t.Context(), limiter, "acme"))
		assert.Equal(t, "200 2 1 60", get("acme"))

		for _, want := range []int{7, 3, 0} {
			n, err := atMost(t.Context(), limiter.For("initech"), 7)
			assert.Equal(t, want, n)
			require.NoError(t, err)
		}
		n, err := atMost(t.Context(), limiter.For("hooli"), 70)
		assert.Equal(t, 10, n, "at most the burst")
		require.NoError(t, err)
		_, err = limiter.For("hooli").TryN(t.Context(), 11)
		require.ErrorIs(t, err, reserve.ErrExceedsBurst)
	})
}

func handled(client redis.UniversalClient, limitOf func(string) (reserve.Limit, int64)) (*reserve.Limiter, error) {
	limiter, err := reserve.New(client, reserve.Config{
		Name:    "customers",
		Limit:   reserve.PerSecond(10).Burst(10), // of customers without a plan
		LimitOf: limitOf,                         // the limit, and the version of the plan
	})
	if err != nil {
		return nil, err
	}
	return limiter, nil
}

type api struct {
	limiter *reserve.Limiter
	next    http.Handler
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limiter := a.limiter.For(r.PathValue("customer"))
	attempt, err := limiter.Try(r.Context())
	switch {
	case errors.Is(err, reserve.ErrInvalid): // the key is too long, say: trying again does not help
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(limiter.Limit().MaxBurst()))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(attempt.Left))
	h.Set("X-RateLimit-Reset", seconds(attempt.Reset))
	if !attempt.Granted {
		h.Set("Retry-After", seconds(attempt.RetryAfter))
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	a.next.ServeHTTP(w, r)
}

// seconds rounds up: a client that returns early is refused again.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// atMost takes up to n permits, and returns how many it has taken.
func atMost(ctx context.Context, limiter *reserve.Limiter, n int) (int, error) {
	n = min(n, limiter.Limit().MaxBurst())
	attempt, err := limiter.TryN(ctx, n)
	if err != nil {
		return 0, err
	}
	if !attempt.Granted && attempt.Left > 0 && attempt.Left < n {
		n = attempt.Left // another call may take them first
		attempt, err = limiter.TryN(ctx, n)
	}
	if err != nil || !attempt.Granted {
		return 0, err
	}
	return n, nil
}

func reset(ctx context.Context, limiter *reserve.Limiter, customer string) (err error) {
	err = limiter.For(customer).Refill(ctx)
	return err
}

// What Bucket4j and gubernator call otherwise.
func TestMovingWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "users", Limit: reserve.PerMinute(10).Burst(10)})
		require.NoError(t, words(t.Context(), t, limiter))
	})
}

func words(ctx context.Context, t *testing.T, limiter *reserve.Limiter) error {
	user := limiter.For("user/42")    // a key of a ProxyManager; unique_key
	attempt, err := user.TryN(ctx, 5) // tryConsumeAndReturnRemaining(5); hits: 5
	if err != nil {
		return err
	}
	state, err := user.State(ctx) // getAvailableTokens(); hits: 0
	if err != nil {
		return err
	}
	err = user.SetLimit(ctx, reserve.PerMinute(20).Burst(20), 2*time.Hour) // replaceConfiguration, for two hours
	if err != nil {
		return err
	}
	err = user.Refill(ctx) // reset(); RESET_REMAINING
	if err != nil {
		return err
	}
	err = user.Told(ctx, 0) // what DRAIN_OVER_LIMIT does after a refusal
	if err != nil {
		return err
	}
	assert.True(t, attempt.Granted)
	assert.Equal(t, 5, attempt.Left)
	assert.InDelta(t, 5, state.Stored, 0)
	state, err = user.State(ctx)
	assert.Equal(t, reserve.PerMinute(20).Burst(20), state.Limit)
	assert.Zero(t, state.Stored)
	return err
}

// Bulk and interactive requests of two processes to an API that is as strict as Stripe: per second, per endpoint, and at
// once.
func TestMovingStripe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const endpoints, workers, takes = 5, 40, 200 * time.Millisecond
		bulk, urgent := 60, 4 // by each process, of bulk to each endpoint
		if os.Getenv("FLEETPACE_LONG") != "" {
			bulk, urgent = 300, 50
		}
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			count(1)
			time.Sleep(takes)
			count(-1)
		})
		mux, each := http.NewServeMux(), []*reservetest.API(nil)
		for i := range endpoints {
			each = append(each, reservetest.NewAPIHandler(t, slow, reserve.PerSecond(25).Burst(25)))
			mux.Handle(fmt.Sprintf("/v1/e%d/", i), each[i])
		}
		account := reservetest.NewAPIHandler(t, mux, reserve.PerSecond(100).Burst(100))
		server, begin := reservetest.New(t), time.Now()
		var all sync.WaitGroup
		var waits []time.Duration
		for range 2 {
			client, done, err := stripeClient(server.Client(), account.RoundTripper())
			require.NoError(t, err)
			t.Cleanup(done)
			tasks := make(chan int, endpoints*bulk)
			for i := range endpoints * bulk {
				tasks <- i % endpoints
			}
			close(tasks)
			for range workers {
				all.Go(func() {
					for i := range tasks {
						assert.NoError(t, bulkCall(t.Context(), client, fmt.Sprintf("https://stripe.test/v1/e%d/x", i)))
					}
				})
			}
			all.Go(func() {
				for i := range urgent {
					time.Sleep(350 * time.Millisecond)
					asked := time.Now()
					assert.NoError(t, urgently(t.Context(), client, fmt.Sprintf("https://stripe.test/v1/e%d/y", i%endpoints)))
					mu.Lock()
					waits = append(waits, time.Since(asked)-takes)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		took := time.Since(begin)
		assert.Zero(t, account.Refused())
		for _, endpoint := range each {
			assert.Zero(t, endpoint.Refused())
		}
		assert.LessOrEqual(t, most, 25)
		slices.Sort(waits)
		ideal := time.Duration(2*endpoints*bulk+2*urgent-10) * time.Second / 90 // with a burst of 10
		t.Logf("%d requests took %v, ideally %v, at most %d at once, %d urgent ones waited %v (median), %v (p99)",
			len(account.Requests()), took, ideal, most, len(waits), waits[len(waits)/2], waits[len(waits)*99/100])
		assert.Less(t, took, ideal*100/97+takes, "at least 0.97 of the limit is used")
		assert.Less(t, waits[len(waits)/2], 100*time.Millisecond, "bulk waits for about 0.9 s")
		assert.Less(t, waits[len(waits)*99/100], 500*time.Millisecond)
	})
}

func bulkCall(ctx context.Context, api *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := api.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func urgently(ctx context.Context, api *http.Client, url string) error {
	ctx = transport.WithUrgent(ctx) // with stripe-go: the Context of the parameters
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := api.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func stripeClient(client redis.UniversalClient, base http.RoundTripper) (*http.Client, func(), error) {
	account, err := reserve.New(client, reserve.Config{Name: "account", Group: "stripe", Limit: reserve.PerSecond(90).Burst(10)})
	if err != nil {
		return nil, nil, err
	}
	endpoint, err := reserve.New(client, reserve.Config{Name: "endpoint", Group: "stripe", Limit: reserve.PerSecond(20).Burst(5)})
	if err != nil {
		return nil, nil, err
	}
	atOnce, err := reserve.New(client, reserve.Config{Name: "at-once", Group: "stripe", Limit: reserve.Concurrent(25)})
	if err != nil {
		return nil, nil, err
	}
	paced, err := transport.New(transport.Config{
		Base: base,
		Choose: func(r *http.Request) (transport.Need, error) {
			parts := strings.SplitN(r.URL.Path, "/", 4) // "", "v1", "charges", and the rest
			this := endpoint.For(r.Method + " " + strings.Join(parts[:min(3, len(parts))], "/"))
			all, err := reserve.All(account, this, atOnce)
			return transport.Need{Limiter: all, Pauses: this}, err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	api := &http.Client{Transport: paced} // with stripe-go: stripe.SetHTTPClient(api)
	return api, func() {
		for _, l := range []*reserve.Limiter{account, endpoint, atOnce} {
			_ = l.Close()
		}
	}, nil
}

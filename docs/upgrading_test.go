package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/worker"
)

func Example_upgrading() {
	ctx := context.Background()
	limiter, err := reserve.New(client, reserve.Config{Name: "upgrading", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	fmt.Println(halve(ctx, limiter))
	state, err := limiter.State(ctx)
	fmt.Println(state.Limit, err)
	// Output:
	// <nil>
	// 25/s burst 5 <nil>
}

// ready is the readiness probe: whether Redis answers for the limit.
func ready(limiter *reserve.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := limiter.State(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func TestReady(t *testing.T) {
	status := func(limiter *reserve.Limiter) int {
		w := httptest.NewRecorder()
		ready(limiter)(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ready", nil))
		return w.Code
	}
	limiter := reservetest.New(t).Limiter(reserve.Config{Name: "api", Limit: reserve.PerSecond(1)})
	assert.Equal(t, http.StatusOK, status(limiter))
	require.NoError(t, limiter.Close())
	assert.Equal(t, http.StatusServiceUnavailable, status(limiter))
}

func halve(ctx context.Context, limiter *reserve.Limiter) error {
	err := limiter.SetLimit(ctx, reserve.PerSecond(25).Burst(5), 10*time.Minute) // half of 50/s
	return err
}

func Example_upgradingAQuota() {
	ctx := context.Background()
	quota, err := reserve.New(client, reserve.Config{Name: "upgrading-quota", Limit: reserve.Rolling(2500, 24*time.Hour)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer quota.Close()
	ok, err := quota.AllowN(ctx, 1800) // what the old processes have used today
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := quota.State(ctx)
	fmt.Println(ok, state.Stored, err)
	// Output: true 700 <nil>
}

func Example_upgradingCode() {
	ctx := context.Background()
	shops, err := reserve.New(client, reserve.Config{Name: "upgrading-shops", Limit: reserve.PerSecond(50)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shops.Close()
	turn, err := turnOf(shops, "acme")
	fmt.Println(turn.Limits, turn.Key, err)
	fmt.Println(settling(client, reserve.PerSecond(100).Burst(2000)))
	fmt.Println(jobs(ctx, shops, "job 1"))
	fmt.Println(renamed(ctx, shops, []reserve.Call{{ID: "job 2"}}))
	// Output:
	// upgrading-shops acme <nil>
	// true <nil>
	// true <nil>
	// <nil>
}

func turnOf(shops *reserve.Limiter, shop string) (worker.Need, error) {
	return worker.Need{Limits: shops, Key: shop}, nil
}

func settling(client redis.UniversalClient, limit reserve.Limit) (bool, error) {
	tokens, err := reserve.New(client, reserve.Config{Name: "tokens", Limit: limit, Settles: true})
	if err != nil {
		return false, err
	}
	return tokens.Settles(), tokens.Close()
}

func jobs(ctx context.Context, limiter *reserve.Limiter, id string) (bool, error) {
	turns, err := reserve.All(limiter)
	if err != nil {
		return false, err
	}
	joined := turns.Book(ctx, []reserve.Call{{ID: id}})
	if joined[0].Err != nil {
		return false, joined[0].Err
	}
	r, err := turns.Ask(ctx, id, time.Second) // waits if its turn is within a second
	if err != nil {
		return false, err
	}
	err = r.PutBack(ctx) // the job goes back
	if err != nil {
		return false, err
	}
	err = turns.CancelBooking(ctx, id) // the job was deleted
	return r.Booked(), err
}

func renamed(ctx context.Context, limiter *reserve.Limiter, calls []reserve.Call) error {
	joint, err := reserve.All(limiter)
	if err != nil {
		return err
	}
	booked := joint.Book(ctx, calls)
	if booked[0].Err != nil {
		return booked[0].Err
	}
	r, err := joint.Ask(ctx, calls[0].ID, time.Second)
	if err != nil {
		return err
	}
	err = r.PutBackUnsure(ctx)
	return err
}

// What the page says to write now stands above.
func TestUpgradedCodeRuns(t *testing.T) {
	page, err := os.ReadFile("upgrading.md")
	require.NoError(t, err)
	code, err := os.ReadFile("upgrading_test.go")
	require.NoError(t, err)
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	all, lines := words(string(code)), 0
	for line := range strings.Lines(string(page)) {
		if added, ok := strings.CutPrefix(line, "+"); ok {
			lines++
			assert.Contains(t, all, words(added))
		}
	}
	require.NotZero(t, lines)
}

// A process ends the waits of its calls on SIGTERM, and closes its limiter last.
func TestStopping(t *testing.T) {
	limiter := reservetest.New(t).Limiter(reserve.Config{Name: "api", Limit: reserve.PerHour(1)})
	require.NoError(t, limiter.Wait(t.Context()))
	require.NoError(t, untilTerminated(limiter, func(ctx context.Context) {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		require.ErrorIs(t, limiter.Wait(ctx), context.Canceled)
	}))
	require.ErrorIs(t, limiter.Wait(t.Context()), reserve.ErrClosed)
}

func untilTerminated(limiter *reserve.Limiter, work func(context.Context)) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	work(ctx)              // where limiter.Wait(ctx) fails, no call was made: put the job back
	return limiter.Close() // after the last call has ended
}

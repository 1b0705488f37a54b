package reservetest_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

// job stands for your code: it makes 100 calls, each in its turn.
func job(ctx context.Context, limiter *reserve.Limiter, api *http.Client) error {
	for range 100 {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		response, err := api.Get("http://api.example/items")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
	}
	return nil
}

func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		api := reservetest.NewAPI(t, reserve.PerSecond(10))
		var processes sync.WaitGroup
		for range 3 {
			limiter := server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerSecond(10)})
			processes.Go(func() {
				if err := job(t.Context(), limiter, api.Client()); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		processes.Wait()
		if took := time.Since(began).Round(time.Second); took != 30*time.Second {
			t.Errorf("300 calls at 10/s took %v", took)
		}
		if n := api.Refused(); n > 0 {
			t.Errorf("the API refused %d of %d requests", n, len(api.Requests()))
		}
	})
}

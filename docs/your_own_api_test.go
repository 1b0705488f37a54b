package docs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/serve"
)

func tenantOf(r *http.Request) (string, error) {
	account, _, ok := r.BasicAuth() // who has logged in
	if !ok {
		return "", errors.New("not logged in")
	}
	return account, nil
}

// asked asks as a tenant, and prints what it is told.
func asked(api http.Handler, tenant, path string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	if tenant != "" {
		r.SetBasicAuth(tenant, "secret")
	}
	api.ServeHTTP(w, r)
	seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	fmt.Println(w.Code, (time.Duration(seconds) * time.Second).Round(time.Minute))
}

func Example_yourOwnAPI() {
	limiter, err := reserve.New(client, reserve.Config{Name: "our-api", Limit: reserve.PerHour(1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	mux, server := http.NewServeMux(), &http.Server{}
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	limited, err := serve.Middleware(limiter, serve.Config{Key: tenantOf})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Handler = limited(mux)
	asked(server.Handler, "acme", "/")
	asked(server.Handler, "acme", "/")
	asked(server.Handler, "zenith", "/")
	asked(server.Handler, "", "/")
	// Output:
	// 200 0s
	// 429 1h0m0s
	// 200 0s
	// 400 0s
}

// Each tenant has a limit, and all together have one. Exports cost more.
func Example_yourOwnAPITwoLimits() {
	tenants, err := reserve.New(client, reserve.Config{Name: "our-tenants", Group: "our-api", Limit: reserve.PerHour(2).Burst(10)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tenants.Close()
	everybody, err := reserve.New(client, reserve.Config{Name: "everybody", Group: "our-api", Limit: reserve.PerHour(4).Burst(15)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer everybody.Close()
	limited, err := twoLimits(tenants, everybody)
	if err != nil {
		fmt.Println(err)
		return
	}
	api := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	asked(api, "acme", "/export")
	asked(api, "acme", "/")
	asked(api, "zenith", "/health")
	asked(api, "zenith", "/export")
	// Output:
	// 200 0s
	// 429 30m0s
	// 200 0s
	// 429 1h15m0s
}

func twoLimits(tenants, everybody *reserve.Limiter) (func(http.Handler) http.Handler, error) {
	limits, err := reserve.All(tenants, everybody)
	if err != nil {
		return nil, err
	}
	return serve.Middleware(limits, serve.Config{
		Key: tenantOf, // of the first limit
		Cost: func(r *http.Request) int {
			switch r.URL.Path {
			case "/health":
				return 0 // passes, and uses nothing
			case "/export":
				return 10
			}
			return 1
		},
	})
}

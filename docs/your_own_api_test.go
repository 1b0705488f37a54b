package docs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

func tenantOf(r *http.Request) (string, error) {
	account, _, ok := r.BasicAuth() // the account that has logged in
	if !ok {
		return "", errors.New("not logged in")
	}
	return account, nil
}

// asked asks as a tenant, and returns the status and how long it is told to wait.
func asked(api http.Handler, tenant, path string) string {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	if tenant != "" {
		r.SetBasicAuth(tenant, "secret")
	}
	api.ServeHTTP(w, r)
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After")))
}

func TestYourOwnAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "our-api", Limit: reserve.PerHour(1)})
		mux, server := http.NewServeMux(), &http.Server{}
		mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		limited, err := inbound.Middleware(limiter, inbound.Config{Key: tenantOf})
		require.NoError(t, err)
		server.Handler = limited(mux)
		require.Equal(t, "200", asked(server.Handler, "acme", "/"))
		require.Equal(t, "429 3600", asked(server.Handler, "acme", "/"))
		require.Equal(t, "200", asked(server.Handler, "zenith", "/"))
		require.Equal(t, "400", asked(server.Handler, "", "/"))
	})
}

// Each tenant has a limit, and all together have one. Exports cost more.
func TestYourOwnAPITwoLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := reservetest.New(t).Joint(
			reserve.Config{Name: "our-tenants", Group: "our-api", Limit: reserve.PerHour(2).Burst(10)},
			reserve.Config{Name: "everybody", Group: "our-api", Limit: reserve.PerHour(4).Burst(15)},
		).Limits()
		limited, err := twoLimits(both[0], both[1])
		require.NoError(t, err)
		api := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		require.Equal(t, "200", asked(api, "acme", "/export"))
		require.Equal(t, "429 1800", asked(api, "acme", "/"))
		require.Equal(t, "200", asked(api, "zenith", "/health"))
		require.Equal(t, "429 4500", asked(api, "zenith", "/export"))
	})
}

func twoLimits(tenants, everybody *reserve.Limiter) (func(http.Handler) http.Handler, error) {
	limits, err := reserve.All(tenants, everybody)
	if err != nil {
		return nil, err
	}
	return inbound.Middleware(limits, inbound.Config{
		Key: tenantOf, // of the first limit
		Cost: func(r *http.Request) int {
			switch r.URL.Path {
			case "/health":
				return 0 // passes without a permit
			case "/export":
				return 10
			}
			return 1
		},
	})
}

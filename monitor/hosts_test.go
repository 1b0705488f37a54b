package monitor_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/monitor"
	"github.com/fleetpace/fleetpace/reserve"
)

// A page elsewhere whose name is made to mean the server's address reads nothing and changes
// nothing, however the page is mounted: it is refused by its name, whatever it asks for.
func TestForeignHosts(t *testing.T) {
	local := map[string]bool{
		"localhost": true, "localhost:9466": true, "LOCALHOST:1": true, "127.0.0.1:9466": true, "127.0.0.1": true, "[::1]:9466": true, "[::1]": true,
		"10.0.0.1:9466": true, "[fd00::7]": true, // addresses: no name leads there
		"evil.test": false, "evil.test:9466": false, "localhost.evil.test": false, "127.0.0.1.evil.test:1": false, "": false, "*": false,
	}
	for name, c := range map[string]struct {
		hosts []string
		more  map[string]bool
	}{
		"none": {nil, map[string]bool{"limits.example.com": false}},
		"one": {[]string{"limits.example.com"}, map[string]bool{
			"limits.example.com": true, "Limits.Example.com:8443": true, "limits.example.com.": true, "example.com": false, "x.limits.example.com": false,
		}},
		"two": {[]string{"a", "B"}, map[string]bool{"a:1": true, "b": true, "c": false}},
		"any": {[]string{"*"}, map[string]bool{"evil.test": true, "evil.test:9466": true, "localhost.evil.test": true, "127.0.0.1.evil.test:1": true, "": true, "*": true}},
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer client.Close()
			page, err := monitor.New(client, monitor.Config{Hosts: c.hosts})
			require.NoError(t, err)
			defer page.Close()
			mux := http.NewServeMux()
			mux.Handle("/some/where/", http.StripPrefix("/some/where", page))
			admitted := map[string]bool{}
			for _, hosts := range []map[string]bool{local, c.more} {
				for host, let := range hosts {
					admitted[host] = let
				}
			}
			for host, let := range admitted {
				for _, request := range []struct{ method, path string }{{"GET", "static/app.js"}, {"POST", "nothing"}} {
					r := httptest.NewRequest(request.method, "/some/where/"+request.path, nil)
					r.Host = host
					w := httptest.NewRecorder()
					mux.ServeHTTP(w, r)
					assert.Equal(t, let, w.Code != http.StatusForbidden, "%s %s %q: %d", request.method, request.path, host, w.Code)
				}
			}
		})
	}
}

// What is no name of a host is told with its place.
func TestHostsThatAreNone(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	for _, host := range []string{"", "https://limits.example.com", "limits.example.com:8443", "*.example.com", "limits.example.com/x"} {
		_, err := monitor.New(client, monitor.Config{Hosts: []string{"fine.example.com", host}})
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.ErrorContains(t, err, `Config.Hosts[1]: must be a name`)
	}
}

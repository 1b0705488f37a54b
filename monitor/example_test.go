package monitor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/monitor"
)

// The page in a program of yours, behind its own login.
func ExampleNew() {
	server, err := embedded.Start("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	page, err := monitor.New(client, monitor.Config{ReadOnly: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/limits/", nil))
	fmt.Println(w.Code)
	// Output: 200
}

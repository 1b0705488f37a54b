package monitor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

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

	page, err := monitor.New(client, monitor.Config{ReadOnly: true, Hosts: []string{"limits.example.com"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://limits.example.com/limits/", nil))
	fmt.Println(w.Code)
	// Output: 200
}

// A page for looking only refuses what would change a limit.
func ExamplePage_ServeHTTP() {
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

	form := url.Values{"name": {"maps-api"}, "for": {"1m"}}
	pause := httptest.NewRequest(http.MethodPost, "http://localhost/pause", strings.NewReader(form.Encode()))
	pause.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, pause)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	// Output: 403 this page is for reading only
}

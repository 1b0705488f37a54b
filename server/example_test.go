package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// setOf stands for a file of yours: it has one limit.
func setOf(limit string) (*limits.Set, func()) {
	redisServer, err := embedded.Start("")
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(path, []byte("limits: [{name: openai, limit: "+limit+"}]"), 0o600); err != nil {
		panic(err)
	}
	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		panic(err)
	}
	return set, func() { _, _, _ = set.Close(), client.Close(), os.RemoveAll(dir); redisServer.Close() }
}

// A worker in another language asks, and calls the API when the answer comes.
func ExampleNew() {
	redisServer, err := embedded.Start("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer redisServer.Close()
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	defer func() { _ = client.Close() }()
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(path, []byte("limits:\n  - {name: openai, limit: 50/s}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	set, err := limits.Load(client, path, reserve.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = set.Close() }()
	turns, err := server.New(set, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(turns)
	defer server.Close()
	defer turns.Drain()

	answer, err := http.Post(server.URL+"/v1/wait", "application/json", strings.NewReader(`{"limits": [{"name": "openai"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 200 OK
}

// The server beside other handlers of a program. A worker that does not want to wait asks whether
// it may call now.
func ExampleServer_ServeHTTP() {
	set, stop := setOf("1/hour")
	defer stop()
	turns, err := server.New(set, server.Config{Token: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", turns)
	mux.HandleFunc("/", http.NotFound) // your own

	for _, token := range []string{"secret", "secret", "guessed"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/allow", strings.NewReader(`{"limits": [{"name": "openai"}]}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		var body struct {
			Allowed bool `json:"allowed"`
		}
		_ = json.Unmarshal(w.Body.Bytes(), &body)
		fmt.Println(w.Code, "allowed:", body.Allowed)
	}
	// Output:
	// 200 allowed: true
	// 429 allowed: false
	// 401 allowed: false
}

// Before a server ends, Drain ends its polls. Callers keep their places, and ask another server
// under the ids of these.
func ExampleServer_Drain() {
	set, stop := setOf("1/hour")
	defer stop()
	turns, err := server.New(set, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(turns)
	defer server.Close()
	wait := func() string {
		body := strings.NewReader(`{"limits": [{"name": "openai"}], "id": "job-7"}`)
		answer, err := http.Post(server.URL+"/v1/wait", "application/json", body)
		if err != nil {
			return err.Error()
		}
		_ = answer.Body.Close()
		return answer.Status
	}

	fmt.Println("it has its turn:", wait())
	fmt.Println("its next one is an hour away:", wait())
	turns.Drain() // then Shutdown of the http.Server
	fmt.Println("it asks another server:", wait())
	// Output:
	// it has its turn: 200 OK
	// its next one is an hour away: 202 Accepted
	// it asks another server: 503 Service Unavailable
}

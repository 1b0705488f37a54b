package remote_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/remote"
	"github.com/fleetpace/fleetpace/reserve"
)

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
	turns, err := remote.New(set, remote.Config{})
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

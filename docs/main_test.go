package docs_test

import (
	"log"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
)

// client is that of the examples: any go-redis client would do.
var client *redis.Client

func TestMain(m *testing.M) {
	server, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	status := m.Run()
	_ = client.Close()
	server.Close()
	os.Exit(status)
}

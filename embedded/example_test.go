package embedded_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
)

func ExampleStart() {
	server, err := embedded.Start("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	fmt.Println(client.Ping(context.Background()).Val())
	// Output: PONG
}

// What is configured by URL takes that of the server.
func ExampleServer_URL() {
	server, err := embedded.Start("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	fmt.Println(client.Ping(context.Background()).Val())
	// Output: PONG
}

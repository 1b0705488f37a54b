package lua_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/lua"
)

// One ask of a small client: its call has its turn, and the next one has a place.
func Example() {
	server, err := embedded.Start("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	keys := lua.Keys("fleetpace", "", "maps-api", "p", "")
	for serial := 1; serial <= 2; serial++ {
		reply, err := lua.Ask.Run(context.Background(), client, keys,
			"", 500, 20_000, 20_000, 300_000, "", "worker-1", serial, "", // of this process, in micros
			"p", 60_000_000, 1, 0, "", 0, "", "", "", 0, // of the limit: one a minute
			1, serial, 0, 1, 1, 1, "", // of one call, whose cost is 1
		).Slice()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("it has its turn:", reply[7] == int64(1))
	}
	// Output:
	// it has its turn: true
	// it has its turn: false
}

func ExampleACL() {
	fmt.Println("ACL SETUSER fleetpace on >secret", lua.ACL("fleetpace")[:38], "…")
	// Output: ACL SETUSER fleetpace on >secret resetkeys ~fleetpace:* resetchannels - …
}

func ExampleKeys() {
	for _, key := range lua.Keys("fleetpace", "", "maps-api", "p", "") {
		fmt.Println(key)
	}
	// Output:
	// fleetpace:{maps-api}:p
	// fleetpace:{maps-api}:p-places
	// fleetpace:{maps-api}:p-log
	// fleetpace:{maps-api}:processes
	// fleetpace:{maps-api}:p-booked
	// fleetpace:{maps-api}:p-flows
}

// A dashboard of Redis 7 or newer looks and changes nothing.
func ExampleACLObserver() {
	rules := lua.ACLObserver("fleetpace")
	fmt.Println("ACL SETUSER dashboard on >secret", rules[:42], "…")
	fmt.Println("it may write:", strings.Contains(rules, "+hset"))
	// Output:
	// ACL SETUSER dashboard on >secret resetkeys %R~fleetpace:* resetchannels -@a …
	// it may write: false
}

// A user of limiters hears of pauses at once, also in a cluster.
func ExampleACLNews() {
	rules := []string{lua.ACL("fleetpace"), lua.ACLNews("fleetpace"), lua.ACLCluster, lua.ACLServer}
	fmt.Println(strings.Join(rules[1:], " "))
	// Output: &fleetpace:* +publish +subscribe +ping +cluster|slots +command +asking +info
}

func ExampleBeatKeys() {
	for _, key := range lua.BeatKeys("fleetpace", "", "maps-api") {
		fmt.Println(key)
	}
	// Output:
	// fleetpace:{maps-api}:processes
	// fleetpace:{maps-api}:beats
	// fleetpace:{maps-api}:limits
	// fleetpace:{maps-api}:reports
}

// Limits of a group share a channel.
func ExampleChannel() {
	fmt.Println(lua.Channel("fleetpace", "", "maps-api"))
	fmt.Println(lua.Channel("fleetpace", "llm", "tokens"))
	// Output:
	// fleetpace:{maps-api}:turns
	// fleetpace:{llm}:turns
}

// All limits of a prefix are in one hash.
func ExampleNameOf() {
	fmt.Println("HKEYS", lua.Index("fleetpace"))
	for _, field := range []string{lua.Indexed("", "maps-api"), lua.Indexed("llm", "tokens"), "something else"} {
		group, name, ok := lua.NameOf(field)
		fmt.Printf("%s: group %q, name %q, %v\n", field, group, name, ok)
	}
	// Output:
	// HKEYS fleetpace:names
	// {maps-api}:: group "", name "maps-api", true
	// {llm}/tokens:: group "llm", name "tokens", true
	// something else: group "", name "", false
}

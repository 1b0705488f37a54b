package lua_test

import (
	"fmt"

	"github.com/fleetpace/fleetpace/lua"
)

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

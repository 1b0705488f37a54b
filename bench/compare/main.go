// Command compare measures what a call of this project costs beside limiters that
// people use, and beside floors: a bare PING, and limiters that never leave the
// process. Permits are available all the time, so nobody waits for the limit: what
// is left is the price of asking.
//
//	go run ./compare
//
// It needs a redis-server in PATH, or -redis. Run it with -h for the cases, the
// contenders and what the columns mean.
//
// The program starts itself again for the keeper of its Redis and for the processes
// of case accuracy. When the parent dies, however it does, their stdin ends, and so
// do they.
package main

import (
	"context"
	"os"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/command"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func main() {
	child.Main(child.Roles{
		memberRole:             memberMain,
		redisserver.KeeperRole: redisserver.Keep,
	})
	os.Exit(command.Run("compare", os.Args[1:], parseOptions, func(ctx context.Context, o options) error {
		return compare(ctx, o, os.Stdout, os.Stderr)
	}))
}

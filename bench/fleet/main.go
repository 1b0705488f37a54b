// Command fleet lets a fleet of asynq server processes call a rate-limited API,
// paced by this project and by its peers, and measures how much of the limit
// each of them uses, how many calls are refused, and how late calls are.
//
//	go run ./fleet -scenario one
//
// It needs a redis-server in PATH, or -redis. Run it with -h for the scenarios,
// the contenders and what the columns mean.
//
// The program starts itself again for the servers' processes, for the bare callers
// beside them and for the keeper of its Redis; what they say to each other is JSON
// lines on stdin and stdout.
// When the parent dies, however it does, their stdin ends, and so do they.
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
		bareRole:               bareMain,
		redisserver.KeeperRole: redisserver.Keep,
	})
	os.Exit(command.Run("fleet", os.Args[1:], parseOptions, func(ctx context.Context, o options) error {
		return race(ctx, o, os.Stdout, os.Stderr)
	}))
}

package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// calls is how often Redis carried out each command. It counts what scripts call
// alike, so each contender says which of them its client sends.
type calls map[string]int64

func commandStats(ctx context.Context, admin *redis.Client) (calls, error) {
	text, err := admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	return parseCommandStats(text), nil
}

// parseCommandStats reads lines such as
//
//	cmdstat_evalsha:calls=17,usec=…
func parseCommandStats(text string) calls {
	all := make(calls)
	for line := range strings.SplitSeq(text, "\r\n") {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, stats, named := strings.Cut(rest, ":calls=")
		if !ok || !named {
			continue
		}
		number, _, _ := strings.Cut(stats, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil {
			all[name] = n
		}
	}
	return all
}

// scriptCalls: no script calls another one.
func scriptCalls(c calls) int64 { return c["evalsha"] + c["eval"] }

// throttledCalls: the client sends TIME and GET, and then EVAL, or SET with NX and
// EXPIRE. The script, too, calls GET, once, so the GETs are those of both.
func throttledCalls(c calls) int64 {
	return c["time"] + (c["get"] - c["eval"]) + c["eval"] + c["set"] + c["expire"]
}

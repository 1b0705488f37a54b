package wire

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// HeldBy is which slots of a limit the calls of a process hold.
type HeldBy struct {
	Mine  []Mine
	Count int  // of the calls of all processes
	All   bool // those are all that there are
}

// Mine is a call that holds slots.
type Mine struct {
	Number, Cost int64
	Doing        string
	Since        float64 // Redis's time, in micros
	Freed        bool    // somebody has taken the slots away from it
}

// Held looks up which slots a process holds, of the calls of each log that hold some for the longest
// time.
func Held(ctx context.Context, client redis.UniversalClient, logs []string, process string, most int) ([]HeldBy, error) {
	pipe := client.Pipeline()
	replies := make([]*redis.ZSliceCmd, len(logs))
	for i, log := range logs {
		replies[i] = pipe.ZRangeWithScores(ctx, log, 0, int64(most)-1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	held := make([]HeldBy, len(logs))
	for i, reply := range replies {
		holders := reply.Val()
		h := HeldBy{Count: len(holders), All: len(holders) < most}
		for _, z := range holders {
			member, _ := z.Member.(string)
			words := strings.SplitN(member, ":", 4)
			if len(words) < 4 || words[0] != process {
				continue
			}
			number, err1 := strconv.ParseInt(words[1], 10, 64)
			cost, err2 := strconv.ParseInt(words[2], 10, 64)
			if err1 == nil && err2 == nil {
				h.Mine = append(h.Mine, Mine{Number: number, Cost: cost, Doing: words[3], Since: z.Score, Freed: z.Score < 0})
			}
		}
		held[i] = h
	}
	return held, nil
}

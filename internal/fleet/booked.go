package fleet

import (
	"context"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/lua"
)

// Booked is the position of a booking among the others.
type Booked struct {
	ID      string `json:"id"`
	Cost    int64  `json:"cost"`
	Counts  bool   `json:"counts"`  // the task has not come back, and no other limit holds it back
	Before  int64  `json:"before"`  // bookings before it
	Permits int64  `json:"permits"` // their permits, less those of calls that wait behind it, if each costs the same as this one
}

// Booked finds the booking with this ID, or else a booking whose ID contains the text. Without one
// it returns nil.
func (r *Reader) Booked(ctx context.Context, n Name, kind, key, text string) (*Booked, error) {
	const looks, each = 100, 1000
	keys := lua.Keys(r.prefix, n.Group, n.Name, kind, key)
	cursor := uint64(0)
	var some, score string
	for range looks {
		found, next, err := r.client.ZScan(ctx, keys[4], cursor, "*"+literal(text)+"*", each).Result()
		if err != nil {
			return nil, classified("look for a booking", err)
		}
		exact := false
		for i := 0; i+1 < len(found) && !exact; i += 2 {
			id := found[i][:max(0, strings.LastIndexByte(found[i], ':'))]
			if exact = id == text; exact || some == "" && strings.Contains(id, text) {
				some, score = found[i], found[i+1]
			}
		}
		if cursor = next; exact || cursor == 0 {
			break
		}
	}
	if some == "" {
		return nil, nil
	}
	i := strings.LastIndexByte(some, ':')
	cost, _ := strconv.ParseInt(some[i+1:], 10, 64)
	b := &Booked{ID: some[:i], Cost: cost, Counts: !strings.HasPrefix(score, "-")}
	front, err := r.front(ctx, keys[0])
	if err != nil || !b.Counts {
		return b, err
	}
	b.Before, err = r.client.ZCount(ctx, keys[4], "("+front, "("+score).Result()
	if err == nil {
		var behind int64
		behind, err = r.client.ZCount(ctx, keys[1], "("+score, "+inf").Result()
		b.Permits = (b.Before - behind) * cost
	}
	return b, classified("count the bookings", err)
}

// front is the tag up to which bookings without a call no longer count: see bookings.lua.
func (r *Reader) front(ctx context.Context, state string) (string, error) {
	values, err := r.client.HMGet(ctx, state, "queue").Result()
	if err != nil {
		return "0", classified("look for a booking", err)
	}
	if queue, ok := values[0].(string); ok {
		if words := strings.Fields(queue); len(words) > lua.QueueFront {
			return words[lua.QueueFront], nil
		}
	}
	return "0", nil
}

// literal returns a text for use in a pattern of Redis.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

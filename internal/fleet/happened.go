package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// Event is a change that somebody has made.
type Event struct {
	At   time.Time `json:"at"`
	Key  string    `json:"key,omitempty"`
	What string    `json:"what"` // such as "paused for 10m0s: their status page is red"
	Who  string    `json:"who"`
}

// Redis keeps the last changes of a limit, and no longer than a month.
const mostEvents, keepEvents = 50, 30 * 24 * time.Hour

// Make makes a change, and writes down who made it. If Redis refuses that note, the change stands, and Make succeeds.
func (t *Target) Make(ctx context.Context, c *Change, who string) error {
	if err := c.Do(ctx); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	text, _ := json.Marshal(Event{At: now, Key: t.Key, What: c.done, Who: who}) // never fails
	key := lua.Changes(t.reader.prefix, t.Name.Group, t.Name.Name)
	_, _ = t.reader.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMicro()), Member: text})
		p.ZRemRangeByRank(ctx, key, 0, -mostEvents-1)
		p.PExpire(ctx, key, keepEvents)
		return nil
	})
	return nil
}

// Happened returns the changes that people have made of a limit and its keys, the last one first, and at most so many.
func (r *Reader) Happened(ctx context.Context, n Name, most int) ([]Event, error) {
	texts, err := r.client.ZRevRange(ctx, lua.Changes(r.prefix, n.Group, n.Name), 0, int64(most)-1).Result()
	if err != nil {
		return nil, classified(fmt.Sprintf("read who has changed %q", n), err)
	}
	var events []Event
	for _, text := range texts {
		var e Event
		if json.Unmarshal([]byte(text), &e) == nil {
			events = append(events, e)
		}
	}
	return events, nil
}

// because follows what was done.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

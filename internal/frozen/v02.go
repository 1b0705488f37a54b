package frozen

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// V02 is a process of v0.2 that uses a limit of 1e6/interval, with a burst. It sends what v0.2 sends.
type V02 struct {
	Client        redis.Scripter
	Prefix, Group string
	Name, Process string
	Interval      time.Duration
	Burst         int

	serial int
}

// The scripts of v0.2.
var (
	inside02 = read("v0.2", "paced", "quota", "rolling", "warming", "state", "places", "slots", "shares", "bookings")
	ask02    = redis.NewScript(read("v0.2", "head", "common") + inside02 + read("v0.2", "ask"))
	beat02   = redis.NewScript(read("v0.2", "beat"))
)

func (p *V02) stem() string {
	if p.Group == "" {
		return p.Prefix + ":{" + p.Name + "}:"
	}
	return p.Prefix + ":{" + p.Group + "}/" + p.Name + ":"
}

// Beat sends a heartbeat, as v0.2 does about once a second. With ends, it is the last one.
func (p *V02) Beat(ctx context.Context, ends bool) error {
	limit := fmt.Sprintf("%v/s", float64(time.Second/p.Interval))
	if ends {
		limit = ""
	}
	keys := []string{p.stem() + "processes", p.stem() + "limits", p.stem() + "reports"}
	report := fmt.Sprintf(`{"host":"desk","pid":4711,"started":%d,"policy":"local"}`, time.Now().Unix())
	return beat02.Run(ctx, p.Client, keys, "", p.Process, float64(time.Second)/float64(p.Interval), limit, 3_000_000, p.channel(), report).Err()
}

func (p *V02) channel() string { return lua.Channel(p.Prefix, p.Group, p.Name) }

// Ask asks for a turn of one permit that is due at once. It reports whether it was granted.
func (p *V02) Ask(ctx context.Context) (granted bool, err error) {
	s := p.stem()
	keys := []string{s + "p", s + "p-places", s + "p-log", s + "processes", s + "p-booked", s + "p-flows"}
	p.serial++
	v, err := ask02.Run(ctx, p.Client, keys,
		"", 0, 1000, 1000, 300_000, "", p.Process, p.serial, p.channel(),
		"p", p.Interval.Microseconds(), p.Burst, 0, "", 0, "", "", "", 0,
		1, p.serial, 2, 1, 1, 1, "").Slice()
	if err != nil {
		return false, err
	}
	if text, _ := v[4].(string); text != "" {
		return false, fmt.Errorf("v0.2: %s", text)
	}
	return v[5] == int64(1) || len(v) > 7 && v[7] == int64(1), nil
}

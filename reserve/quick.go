package reserve

import (
	"context"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// hop is what a trip asks of one line, and what the line says; see quick.lua.
type hop struct {
	epoch   int64
	live    int64
	line    any // both, as the script wants them
	member  any // a string
	known   string
	serial  int64
	permits int64
	slack   float64 // micros
	extra   int64

	before int64         // the permits are (before, before+given]; negative: it gave none
	due    time.Duration // of permit before; negative when past
	idle   int64
	given  int64
}

// quick makes one call for several lines. It returns Redis's time.
func (c *core) quick(ctx context.Context, keys []string, hops []*hop) (int64, error) {
	const forAll, forEach = 4, 7
	args := make([]any, forAll, forAll+forEach*len(hops))
	lasting := c.lasting().Microseconds()
	args[0], args[1], args[2], args[3] = c.limit[0], c.limit[1], c.clock.at(time.Now()), lasting
	for _, h := range hops {
		args = append(args, h.line, h.member, h.known, h.serial, h.permits, int64(h.slack))
		if lasting > 0 {
			args = append(args, h.extra)
		}
	}
	reply, err := c.run(ctx, lua.Quick, keys, args)
	if err != nil {
		return 0, err
	}
	return decodeQuick(reply, hops)
}

// decodeQuick reads the reply of quick and trusts nothing in it.
func decodeQuick(reply any, hops []*hop) (int64, error) {
	values, err := integers(reply, 1+4*len(hops))
	if err != nil {
		return 0, err
	}
	for i, h := range hops {
		v := values[1+4*i:]
		h.before, h.idle, h.given = v[0], v[2], v[3]
		if h.due, err = micros(v[1]); err != nil {
			return 0, err
		}
		if h.before >= 0 && (h.idle < 0 || h.given != h.permits && h.given != h.permits+h.extra) {
			return 0, unreadable("idle %d, and %d permits of %d", h.idle, h.given, h.permits)
		}
	}
	return values[0], nil
}

// lasting is for how long permits taken ahead can be used at least.
func (c *core) lasting() time.Duration {
	return min(c.cfg.Lease, c.fill()/2)
}

// known is how the lane's field in the state begins, as far as that can be told.
func (a *lane) known() string {
	if a.seen == 0 {
		return ""
	}
	b := make([]byte, 0, 40)
	b = append(strconv.AppendInt(b, a.seen, 10), ' ')
	return string(append(strconv.AppendInt(b, a.serial, 10), ' '))
}

package fleet

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// isLease reports whether a lease holds the slots, and not a process: see slots.lua. A caller of serve has a lease.
func isLease(h reserve.Holder) bool { return strings.HasPrefix(h.Process, "~") }

// readLeases finds when the leases end that hold slots of a row. It costs nothing if only processes hold slots. On an
// error these moments stay unknown.
func (r *Reader) readLeases(ctx context.Context, n Name, row *Row) {
	var names []string
	for _, h := range row.State.Holders {
		if isLease(h) {
			names = append(names, h.Process)
		}
	}
	if names == nil {
		return
	}
	state := lua.Keys(r.prefix, n.Group, n.Name, wire.Kinds[reserve.KindSlots].Letter, row.Key)[0]
	var ends *redis.SliceCmd
	var clock *redis.TimeCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		ends, clock = p.HMGet(ctx, state, names...), p.Time(ctx)
		return nil
	})
	if err != nil {
		return
	}
	row.leases = map[string]time.Duration{}
	for i, end := range ends.Val() {
		text, _ := end.(string)
		if micros, err := strconv.ParseInt(text, 10, 64); err == nil {
			row.leases[names[i]] = max(0, time.UnixMicro(micros).Sub(clock.Val()))
		}
	}
}

// Lease says in how long the lease ends that holds slots, unless its caller renews it. It is empty if a process holds
// the slots, which needs no lease.
func (row *Row) Lease(h reserve.Holder) string {
	left, known := row.leases[h.Process]
	if !known {
		return ""
	}
	return span(left)
}

// lease ends a sentence about a holder.
func (row *Row) lease(h reserve.Holder) string {
	if left := row.Lease(h); left != "" {
		return "; its lease ends in " + left + " unless the caller renews it"
	}
	return ""
}

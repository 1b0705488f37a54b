package asker

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	renoted   = 10 * time.Minute       // how often a name is noted again, so that the index outlives a Redis
	forgotten = 10 * time.Minute       // without a call a key is told of no more
	asking    = 100 * time.Millisecond // a call that has been there for less may just be asking
	mostTold  = 50                     // keys and flows that a report tells of
)

// self is what is the same in all reports.
var self = func() wire.Report {
	host, _ := os.Hostname()
	return wire.Report{Host: host, PID: os.Getpid(), Started: time.Now().Unix()}
}()

// report is what the process tells of itself under a name.
func (a *Asker) report(name *wire.Name, now time.Time) wire.Report {
	report := self
	report.Policy = a.cfg.Policy
	a.lock()
	defer a.mu.Unlock()
	report.Waiting = a.waitingOf(name, now)
	used := map[*wire.Limit]time.Time{}
	for other, pulse := range a.names {
		if other.Keys[0] == name.Keys[0] {
			maps.DeleteFunc(pulse.limits, func(_ *wire.Limit, last time.Time) bool { return now.Sub(last) >= forgotten })
			maps.Copy(used, pulse.limits)
		}
	}
	for _, l := range firsts(slices.Collect(maps.Keys(used)), func(x, y *wire.Limit) int { return used[y].Compare(used[x]) }) {
		report.Used = append(report.Used, wire.Usage{Key: l.Key, Calls: l.Calls.Load(), Permits: l.Calls.Load() + l.Further.Load()})
	}
	return report
}

// waitingOf are the calls that wait for limits of a name. The Asker must be locked.
func (a *Asker) waitingOf(name *wire.Name, now time.Time) []wire.Waiting {
	type whose struct{ key, flow, heldBy string }
	found := map[whose]*wire.Waiting{}
	for _, k := range a.kinds {
		calls := k.queue.Waiting()
		i := slices.IndexFunc(k.parts, func(p Part) bool { return p.Limit.Name.Keys[0] == name.Keys[0] })
		if i < 0 || calls == 0 || now.Sub(k.queue.Oldest()) < asking {
			continue
		}
		of := whose{k.parts[i].Limit.Key, k.need.Flow.Name, ""}
		if by := k.queue.HeldBy(); by >= 0 && by < len(k.parts) && by != i {
			of.heldBy = k.parts[by].Limit.String()
		}
		if found[of] == nil {
			found[of] = &wire.Waiting{Key: of.key, Flow: of.flow, HeldBy: of.heldBy}
		}
		found[of].Calls += calls
		found[of].Oldest = max(found[of].Oldest, now.Sub(k.queue.Oldest()).Round(time.Millisecond).Seconds())
	}
	all := firsts(slices.Collect(maps.Values(found)), func(x, y *wire.Waiting) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Flow, y.Flow), cmp.Compare(x.HeldBy, y.HeldBy))
	})
	told := make([]wire.Waiting, len(all))
	for i, w := range all {
		told[i] = *w
	}
	return told
}

// firsts are the first ones in an order, as many as a report tells of.
func firsts[T any](all []T, order func(x, y T) int) []T {
	slices.SortFunc(all, order)
	return all[:min(len(all), mostTold)]
}

// mostNoted is how many names are written into the index with one command.
const mostNoted = 256

// note writes names into the index, from time to time.
func (a *Asker) note(names []*wire.Name) {
	now := time.Now()
	a.lock()
	names = slices.DeleteFunc(slices.Clone(names), func(name *wire.Name) bool {
		p := a.names[name]
		return p == nil || name.Index == "" || now.Sub(p.noted) < renoted
	})
	a.mu.Unlock()
	for some := range slices.Chunk(names, mostNoted) {
		if wire.Register(a.life, a.cfg.Client, some, now) != nil {
			return // once more with the next heartbeat
		}
		a.lock()
		for _, name := range some {
			if p := a.names[name]; p != nil {
				p.noted = now
			}
		}
		a.mu.Unlock()
	}
}

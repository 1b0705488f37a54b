package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Row is the state of one key.
type Row struct {
	Queue
	State reserve.State `json:"-"`
	Own   reserve.Limit `json:"-"` // the configured limit, or the plan of the key
	Err   error         `json:"-"` // the error of its state; the rest is known nevertheless

	Limit   string    `json:"limit"` // in force
	Rate    float64   `json:"rate"`  // permits per second; for slots, their number
	Waiting int64     `json:"waiting"`
	Booked  int64     `json:"booked"`
	Paused  bool      `json:"paused"`
	Until   time.Time `json:"until,omitzero"` // the end of the pause
	Reason  string    `json:"reason,omitempty"`
	Set     bool      `json:"set"`
	Wait    float64   `json:"wait"` // seconds that a call of one permit would wait now
	Held    int       `json:"held"` // slots that calls hold
	Error   string    `json:"error,omitempty"`

	plan   bool                     // Own is the plan of the key
	served bool                     // callers of serve have made its bookings
	leases map[string]time.Duration // by the process of a holder: in how long its lease ends
}

// Look is the state of a limit: its processes, and the rows of some of its keys.
type Look struct {
	*Survey
	Rows []Row `json:"rows"`

	left    left  // used if there are no rows
	refuses error // Redis answers, but refuses to write
	untried bool  // this user may not try whether Redis refuses to write
}

// Look reads a limit and the states of these keys. Without keys, it reads up to `most` keys
// that processes name, the busiest first. If they name none, it reads the key "". Each state takes one script call.
func (r *Reader) Look(ctx context.Context, n Name, most int, wanted ...string) (*Look, error) {
	return r.look(ctx, n, most, true, wanted...)
}

// tries tries a write that changes nothing. The error says that Redis refuses to write. Or this user may not try.
func (r *Reader) tries(ctx context.Context, n Name) (untried bool, refuses error) {
	if r.denied.Load() {
		return true, nil
	}
	err := r.client.ZAddXX(ctx, lua.BeatKeys(r.prefix, n.Group, n.Name)[0], redis.Z{Member: setter}).Err()
	if err == nil {
		return false, nil
	}
	if err = fault.Classify(err); errors.Is(err, fault.ErrDenied) {
		r.denied.Store(true)
		return true, nil
	}
	var reply redis.Error
	if errors.As(err, &reply) && errors.Is(err, fault.ErrUnavailable) {
		return false, err
	}
	return false, nil
}

// isDefault reports whether the client is the default user of Redis. Another user may have no right to write, and each
// refusal would be an entry of the ACL log.
func (r *Reader) isDefault() bool {
	user := ""
	switch client := r.client.(type) {
	case *redis.ClusterClient:
		user = client.Options().Username
	case *redis.Client:
		user = client.Options().Username
	}
	return user == "" || user == "default"
}

// look is Look. If processes died and none is alive, it finds whether Redis refuses to write. The default user finds it also
// if none died, and while some are alive if told to try.
func (r *Reader) look(ctx context.Context, n Name, most int, try bool, wanted ...string) (*Look, error) {
	s, err := r.Survey(ctx, n)
	if err != nil {
		return nil, err
	}
	look := &Look{Survey: s, Rows: []Row{}}
	if nobody := s.Alive() == 0; nobody && s.Dead() > 0 || r.isDefault() && (try || nobody) { // else the heartbeats were written a moment ago
		look.untried, look.refuses = r.tries(ctx, n)
		if look.refuses != nil && s.Living() > 0 && strings.Contains(look.refuses.Error(), "READONLY") {
			look.refuses = nil // a replica, which is only read here
		}
	}
	if slices.ContainsFunc(s.Processes, func(p Process) bool { return p.quiet }) {
		look.excuse(r.gaps(ctx, n))
	}
	limit, err := s.InForce()
	if err != nil { // no process has used it for ten minutes
		look.left, err = r.left(ctx, n, slices.Concat(wanted, []string{""})[0])
		return look, err
	}
	limiter, err := r.limiter(use{Name: n}, limit)
	if err != nil {
		return nil, err
	}
	known := map[string]Queue{}
	for _, q := range s.Keys {
		known[q.Key] = q
		if len(wanted) == 0 && len(look.Rows) < most {
			look.Rows = append(look.Rows, Row{Queue: q})
		}
	}
	for _, key := range wanted {
		q := known[key]
		q.Key = key
		look.Rows = append(look.Rows, Row{Queue: q})
	}
	if len(look.Rows) == 0 && most > 0 {
		look.Rows = append(look.Rows, Row{})
	}
	for i := range look.Rows {
		look.Rows[i].read(ctx, limiter, limit)
		if err := look.Rows[i].Err; err != nil && !errors.Is(err, reserve.ErrCorrupt) && !errors.Is(err, reserve.ErrInvalid) {
			return nil, err
		}
		r.readLeases(ctx, n, &look.Rows[i])
		look.Rows[i].served = r.overHTTP(ctx, n, &look.Rows[i])
	}
	return look, nil
}

// mostFull is the longest time without heartbeats that counts as that of a full Redis. Redis does not say when it was
// full, and processes that were killed later would count as silent.
const mostFull = 30 * time.Second

// back is for how long after the start of Redis no process counts as dead that has been silent since before. Processes
// send heartbeats each second. Redis tells whole seconds, so this is at least as long as a process may be silent.
const back = silent + time.Second

// excuse marks the silent processes that may live: Redis took no heartbeats.
func (l *Look) excuse(full, up time.Duration) {
	for i := range l.Processes {
		p := &l.Processes[i]
		switch ago := seconds(p.Silent); {
		case !p.quiet || p.Alive:
			continue
		case l.refuses != nil:
			p.meanwhile = "Redis refuses to write"
		case up < back && ago > up-time.Second:
			p.meanwhile = justStarted
		case full > 0 && ago <= min(full, mostFull)+late:
			p.meanwhile = "Redis was full"
		}
		p.Unsure = p.meanwhile != ""
	}
}

const justStarted = "Redis has just started"

// Refuses says that Redis refuses to write, and why. It is empty if Redis takes writes, or this user may not try.
func (l *Look) Refuses() string {
	if l.refuses == nil {
		return ""
	}
	because := noWrites(l.refuses)
	return because.text + " " + because.more
}

// gaps says when Redis took no heartbeats: for how long it was full since it started, and how long ago it started. The
// first is 0 if no process listens to the news of the limit, as killed processes have no connection. If this user may
// not ask, Redis was never full, and started long ago.
func (r *Reader) gaps(ctx context.Context, n Name) (full, up time.Duration) {
	const long = 24 * time.Hour
	if r.blind.Load() {
		return 0, long
	}
	var node redis.Cmdable = r.client
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, lua.BeatKeys(r.prefix, n.Group, n.Name)[0])
		if err != nil {
			return 0, long
		}
		node = master
	}
	channel := lua.Channel(r.prefix, n.Group, n.Name)
	info, err := node.Info(ctx).Result()
	var listen map[string]int64
	if full = figure(info, "total_eviction_exceeded_time", time.Millisecond, 0); full > 0 { // earlier servers do not say it
		listen, err = node.PubSubNumSub(ctx, channel).Result()
	}
	if r.blind.Store(errors.Is(fault.Classify(err), fault.ErrDenied)); listen[channel] == 0 {
		full = 0
	}
	return full, figure(info, "uptime_in_seconds", time.Second, long)
}

// figure is a time that INFO tells.
func figure(info, name string, unit, unknown time.Duration) time.Duration {
	_, after, _ := strings.Cut(info, "\n"+name+":")
	var n int
	if _, err := fmt.Sscan(after, &n); err != nil {
		return unknown
	}
	return time.Duration(n) * unit
}

// left counts the calls of a limit that no process has used for ten minutes.
type left struct{ waiting, booked int64 }

// left counts the calls of a key. The kind of the limit is unknown by then, so it counts them for
// all kinds.
func (r *Reader) left(ctx context.Context, n Name, key string) (sum left, err error) {
	var waiting, booked [len(wire.Kinds)]*redis.IntCmd
	_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, kind := range wire.Kinds {
			keys := lua.Keys(r.prefix, n.Group, n.Name, kind.Letter, key)
			waiting[i], booked[i] = p.ZCard(ctx, keys[1]), p.ZCard(ctx, keys[4])
		}
		return nil
	})
	for i, kind := range wire.Kinds {
		if err != nil {
			return sum, classified("count the calls that wait or are booked", err)
		}
		sum.waiting += waiting[i].Val()
		if booked[i].Val() == 0 {
			continue
		}
		keys, front := lua.Keys(r.prefix, n.Group, n.Name, kind.Letter, key), ""
		if front, err = r.front(ctx, keys[0]); err == nil {
			var count int64
			count, err = r.client.ZCount(ctx, keys[4], "("+front, "+inf").Result()
			sum.booked += count
		}
	}
	return sum, classified("count the bookings", err)
}

// read reads the state of a row.
func (row *Row) read(ctx context.Context, limiter *reserve.Limiter, limit reserve.Limit) {
	if row.Key != "" {
		limiter = limiter.For(row.Key)
	}
	row.Limit, row.Own = limit.String(), limit
	row.State, row.Err = limiter.State(ctx)
	if row.Err != nil {
		row.Error = row.Err.Error()
		return
	}
	st := &row.State
	row.Rate, row.Waiting, row.Booked = st.Rate, st.Waiting, st.Booked
	row.Paused, row.Reason, row.Set = st.Paused > 0, st.PauseReason, st.Set
	row.Wait = st.Wait.Seconds()
	if row.Paused {
		row.Until = time.Now().Add(st.Paused).Round(time.Millisecond)
	}
	row.Limit, row.Own = st.Limit.String(), limiter.Limit()
	row.plan = row.Own != limit
	for _, h := range st.Holders {
		row.Held += h.Slots
	}
}

// overHTTP reports whether the first booking of a row is that of a caller of serve. On an error this is not known.
func (r *Reader) overHTTP(ctx context.Context, n Name, row *Row) bool {
	if row.Booked == 0 {
		return false
	}
	booked := lua.Keys(r.prefix, n.Group, n.Name, wire.Kinds[row.Own.Kind()].Letter, row.Key)[4]
	first, err := r.client.ZRange(ctx, booked, 0, 0).Result()
	return err == nil && len(first) > 0 && strings.HasPrefix(first[0], "http:")
}

// NewCall says how long a new call of a row would wait. "-" means not at all.
func (l *Look) NewCall(row *Row) string {
	st := &row.State
	slots := st.Limit.Kind() == reserve.KindSlots && (row.Waiting > 0 || row.Held >= st.Burst)
	switch {
	case st.Stopped:
		return "fails"
	case row.Err != nil, l.perhaps() > 0, slots, // when a slot will be free is unknown
		slices.ContainsFunc(l.reasons(row, nil), func(r reason) bool { return r.why == WhyNobody || r.why == WhyNoWrites }):
		return "not known"
	}
	return Span(row.Wait)
}

// InForce is the configured limit, the slowest one if processes differ. The error says that it is
// unknown, because no process has used the limit for ten minutes.
func (s *Survey) InForce() (reserve.Limit, error) {
	if s.Limit == "" {
		return reserve.Limit{}, fmt.Errorf("%w: %q; pass the configured limit with --limit of the fleetpace command", ErrUnused, s.Name)
	}
	return reserve.ParseLimit(s.Limit)
}

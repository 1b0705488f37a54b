package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/meter"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// Name is the name of a limiter, which all its keys share. Under it, processes report that they live, and
// which limit they were configured with. It is safe for concurrent use.
type Name struct {
	Life  []string // the first two of lua.BeatKeys: the same for all names of a group …
	Keys  []string // … and the other keys, of the name alone
	Kind  string   // of its limit, as the scripts know it
	Pace  float64  // of its limit, in permits per second: a lower pace is slower
	Limit string   // its text

	Text         string // as users know it
	Index, Field string // where other programs find it: see lua.Index; empty: nowhere

	Rank  atomic.Int64           // the rank of this limit among the limits of other processes: see beat.lua
	Alive atomic.Int64           // how many processes; 0: not known
	Fewer atomic.Bool            // … and others may live that have sent no heartbeat yet
	Other atomic.Pointer[Ruling] // what is in force, if this limit is not and its calls must not be made; nil otherwise
	Sure  atomic.Bool            // Redis has sent its kind, since the name is in use
	Ended atomic.Bool            // its limiter was closed: no more calls join

	Owner any // who made it, for events

	Meter *meter.Limit // counts what happens to its calls; nil: nothing is counted

	observed atomic.Bool           // the user may only read
	unsure   atomic.Int64          // since when not all processes are known, in micros of Redis's clock; 0: they are
	base     atomic.Pointer[Terms] // the kind and calendar that the keys of its limits say
}

// baseOf returns terms with this kind and calendar. The limits of a name share one copy of them.
func (n *Name) baseOf(t *Terms) *Terms {
	base := n.base.Load()
	if base == nil || !base.like(t) {
		of := *t
		base = &of
		n.base.Store(base)
	}
	return base
}

// grouped reports whether the name has a group. The names of a group share the keys for living processes.
func (n *Name) grouped() bool {
	return len(n.Life) > 0 && strings.TrimSuffix(n.Life[0], "processes") != strings.TrimSuffix(n.Keys[0], "limits")
}

// Heartbeat says that a process lives, about every second, and what it tells under some names.
type Heartbeat struct {
	Client  redis.UniversalClient
	Channel string
	Process string
	Dead    time.Duration // a process that is silent for so long is dead
	Life    []string      // Name.Life of all of its names
	Ends    bool          // the process needs no name any more

	Protocol int // the protocol that it speaks; 0: lua.Protocol

	Names []Told
}

// Told is what a process tells under a name.
type Told struct {
	Name   *Name
	Ends   bool   // the process needs it no more: its limit does not count
	Report string // of what the process does there: see Report; empty: nothing
}

// Pulse is the reply of Redis to a heartbeat.
type Pulse struct {
	Micros int64  // Redis's time
	Known  bool   // Redis knew the process …
	Dead   bool   // … as one that has died: others may have its slots
	Died   int64  // when a process died or ended last, in micros of Redis
	Run    string // the run of the server; empty: not known
	Lowest int    // the lowest protocol of the living processes of the group; 0: not known

	Names []Ruling // for the first names that were sent: the other names are to be sent again
}

// Ruling is the limit in force under a name.
type Ruling struct {
	Limit    string // its text: the slowest
	Kind     string // empty: no process has used the name
	Protocol int    // of other processes, beside which this one cannot work; 0: of none
}

// returned is how long after a loss of data all living processes have sent heartbeats again.
const returned = 8 * time.Second

// Beat sends a heartbeat, and stores which limits are in force under its names.
func Beat(ctx context.Context, h *Heartbeat) (Pulse, error) {
	keys, lives := slices.Clone(h.Life), "1"
	if h.Ends {
		lives = "0"
	}
	args := append(make([]any, 0, 6+4*len(h.Names)), "", h.Process, h.Dead.Microseconds(), h.Channel, lives, cmp.Or(h.Protocol, scripts.Protocol))
	for _, told := range h.Names {
		n, limit := told.Name, told.Name.Limit
		if told.Ends {
			limit = ""
		}
		keys = append(keys, n.Keys...)
		args = append(args, n.Kind, exact(n.Pace), limit, told.Report)
	}
	values, err := run(ctx, h.Client, scripts.Beat, keys, args)
	if err != nil {
		return Pulse{}, err
	}
	r := &reader{values: values}
	p := Pulse{Micros: r.number()}
	known := r.number()
	p.Known, p.Dead, p.Died, p.Run = known > 0, known == 2, r.number(), r.text()
	p.Lowest = int(r.number())
	for i := 0; r.err == nil && len(r.values) > 0 && i < len(h.Names); i++ {
		alive, rank, ruling := r.number(), r.number(), Ruling{Limit: r.text(), Kind: r.text()}
		if r.err != nil {
			break
		}
		ruling.Protocol, _ = strconv.Atoi(ruling.Kind)
		n := h.Names[i].Name
		if ruling.Limit != n.Limit || ruling.Kind != n.Kind {
			rank = 0
		}
		n.Rank.Store(rank)
		n.Alive.Store(n.counts(alive, &p))
		p.Names = append(p.Names, ruling)
	}
	return p, r.err
}

// counts returns how many processes there are, of which so many have sent heartbeats. After a loss of data, living ones
// return one after the other.
func (n *Name) counts(alive int64, p *Pulse) int64 {
	if p.Lowest > 0 {
		n.unsure.Store(0)
		return alive
	}
	n.unsure.CompareAndSwap(0, p.Micros)
	if p.Micros-n.unsure.Load() < returned.Microseconds() {
		return max(alive, n.Alive.Load())
	}
	return alive
}

// Report is what a process reports about itself under a name, with each heartbeat. It is for people:
// nothing depends on it.
type Report struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Started int64  `json:"started"`          // Unix seconds
	Policy  string `json:"policy"`           // the policy for calls while Redis is unreachable
	Ended   bool   `json:"ended,omitempty"`  // the process no longer needs the name …
	Closed  bool   `json:"closed,omitempty"` // … because its limiter was closed

	Version string `json:"version,omitempty"` // of fleetpace, as go build knows it

	Protocol int `json:"protocol,omitempty"` // that it speaks: see lua.Protocol; 0: its version is v0.2

	Waiting []Waiting `json:"waiting,omitempty"` // the keys and flows with the most calls
	Used    []Usage   `json:"used,omitempty"`    // the keys that were used last
}

// Waiting are calls of one key and flow that have no turn yet.
type Waiting struct {
	Key    string  `json:"key,omitempty"`
	Flow   string  `json:"flow,omitempty"`
	Weight float64 `json:"weight,omitempty"` // of the flow
	Calls  int     `json:"calls"`
	Oldest float64 `json:"oldest"`           // seconds that the first call has waited
	HeldBy string  `json:"heldBy,omitempty"` // another limit that holds the calls back, with its key after a slash
}

// Usage is what the process has used under a key since it began.
type Usage struct {
	Key     string `json:"key,omitempty"`
	Calls   int64  `json:"calls"`
	Permits int64  `json:"permits"`
}

// Text returns the report as Redis stores it.
func (r *Report) Text() string {
	if r.PID == 0 {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil { // a float is not finite: there is no report
		return ""
	}
	return string(text)
}

// Register adds names to the index, so that other programs find them. All have the same prefix.
func Register(ctx context.Context, client redis.UniversalClient, names []*Name, now time.Time) error {
	fields := make([]any, 0, 2*len(names))
	for _, n := range names {
		fields = append(fields, n.Field, now.UnixMicro())
	}
	return client.HSet(ctx, names[0].Index, fields...).Err()
}

// Foreign looks for a name under which living processes have another kind of limit in force. It asks about the
// names whose kinds Redis has not sent with a heartbeat, and changes nothing. A process counts as dead if it has
// been silent for a time. For an empty name all is well.
func Foreign(ctx context.Context, client redis.UniversalClient, limits []*Limit, dead time.Duration) (*Name, *Ruling, error) {
	var names []*Name
	for _, l := range limits {
		if !l.Name.Sure.Load() && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	rulings, err := rulingsOf(ctx, client, names)
	for i, ruling := range rulings {
		if ruling.Kind == "" || ruling.Kind == names[i].Kind {
			continue
		}
		used, err := names[i].usedNow(ctx, client, dead)
		if used || err != nil {
			return names[i], &ruling, err
		}
	}
	return nil, nil, err
}

// rulingsOf reads which limits are in force under some names.
func rulingsOf(ctx context.Context, client redis.UniversalClient, names []*Name) ([]Ruling, error) {
	read := func(c redis.Cmdable, n *Name) *redis.SliceCmd { return c.HMGet(ctx, n.Keys[0], " kind", " limit") }
	replies := make([]*redis.SliceCmd, len(names))
	var err error
	if len(names) == 1 { // one command needs no pipeline, which takes a trip more
		replies[0] = read(client, names[0])
		err = replies[0].Err()
	} else {
		pipe := client.Pipeline()
		for i, n := range names {
			replies[i] = read(pipe, n)
		}
		_, err = pipe.Exec(ctx)
	}
	if err = mayNot(err); err != nil {
		return nil, err
	}
	rulings := make([]Ruling, len(names))
	for i, reply := range replies {
		if values := reply.Val(); len(values) == 2 {
			rulings[i].Kind, _ = values[0].(string)
			rulings[i].Limit, _ = values[1].(string)
		}
	}
	return rulings, nil
}

// usedNow reports whether living processes use a name.
func (n *Name) usedNow(ctx context.Context, client redis.UniversalClient, dead time.Duration) (bool, error) {
	pipe := client.Pipeline()
	now, limits := pipe.Time(ctx), pipe.HGetAll(ctx, n.Keys[0])
	beats := pipe.ZRangeByScoreWithScores(ctx, n.Life[0], &redis.ZRangeBy{Min: "(0", Max: "+inf"})
	if _, err := pipe.Exec(ctx); err != nil {
		return false, mayNot(err)
	}
	since := float64(now.Val().Add(-dead).UnixMicro())
	for _, beat := range beats.Val() {
		process, _ := beat.Member.(string)
		pace, _, _ := strings.Cut(limits.Val()[process], " ") // a process without a limit that counts has a sign there
		if _, err := strconv.ParseFloat(pace, 64); err == nil && beat.Score > since {
			return true, nil
		}
	}
	return false, nil
}

// mayNot returns the error of a command, or nil if the user may not read that: then the script says what it may.
func mayNot(err error) error {
	if err == nil {
		return nil
	}
	if err = fault.Classify(err); errors.Is(err, fault.ErrDenied) {
		return nil
	}
	return err
}

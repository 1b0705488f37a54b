package wire

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// Left is what a call no longer needs: a place, unused turns of an ask, a booking, or slots.
type Left struct {
	Limit int
	// For a place, Place is the number of the call and Cost its cost. For turns, Turns is the ask that got
	// them, and Cost is how many of its first permits are still needed. For a booking that ends, Cost is
	// its cost.
	Place int64
	Turns string
	Cost  int64
	Flow  Flow // of the place

	// For a call that leaves its place and is booked, ID is its ID, and Tag its tag, less than 0 if it does
	// not count there. For a booking that ends, ID is its ID, and Tag is 0.
	ID  string
	Tag int64

	// For slots, Place is the number of the call. Either the call no longer holds them, or it has held them
	// since a time of Redis in micros, although Redis may have lost that. Doing says what the call is for.
	Done  bool
	Free  bool // somebody takes the slots away
	Since int64
	Doing string

	// A lease of that name takes over the slots of the call, or is renewed, and ends after so long. When it takes
	// them over, a space and what the lease is for follow the name.
	Lease string
	For   time.Duration

	Look bool // messages of free slots are repeated to calls that have not asked
}

// Leave leaves places, and gives back unused turns. It returns for each item how many permits came back,
// how many the place waited for, or how many are held within the limit. It may be repeated.
func Leave(ctx context.Context, c *Call, items []Left) (Reply, []int64, error) {
	a := c.begin(scripts.Leave)
	for i := range items {
		item := &items[i]
		a.number(int64(item.Limit + 1))
		switch {
		case item.Look:
			a.text("look")
			a.text("")
			a.number(0)
		case item.Free:
			a.slots("free", item)
		case item.Lease != "":
			a.text("lease")
			a.joined(' ', item.Lease, item.Place, item.For.Microseconds())
			a.joined(':', item.Doing, item.Cost)
		case item.Done:
			a.slots("done", item)
		case item.Since > 0:
			a.text("keep")
			a.text(fmt.Sprintf("%d %d", item.Place, item.Since))
			a.joined(':', item.Doing, item.Cost)
		case item.Turns != "":
			a.text("turn")
			a.text(item.Turns)
			a.number(item.Cost)
		case item.ID == "":
			a.text("place")
			a.number(item.Place)
			a.size(&item.Flow, item.Cost)
		case item.Tag != 0:
			a.text("book")
			a.joined(' ', item.ID, item.Place, item.Tag)
			a.size(&item.Flow, item.Cost)
		default:
			a.text("drop")
			a.text(item.ID)
			a.number(item.Cost)
		}
	}
	reply, r, err := c.run(ctx, scripts.Leave)
	if err != nil {
		return reply, nil, err
	}
	return reply, r.numbers(len(items)), r.err
}

// slots adds the arguments for slots.
func (a *args) slots(what string, item *Left) {
	a.text(what)
	a.number(item.Place)
	a.joined(':', item.Doing, item.Cost)
}

// Used is how much of a limit a call used in the end.
type Used struct {
	Limit int
	ID    string // "<process>:<number>" of the call
	Cost  int64  // what the limit has of the call: its cost, or what was reported last
	Used  int64
	Again bool // Used is a better estimate: permits may come back again. Without an ID: of calls without any limit
	Flow  Flow // of the call
}

// NotKnown says that a limit does not know a call, or has no record of it any more.
const NotKnown = math.MinInt64

// Settle reports how much calls have used. It returns by how many permits that has changed the use of each limit, below
// 0 if permits came back, or NotKnown. It may be repeated: each report counts once.
func Settle(ctx context.Context, c *Call, items []Used) (Reply, []int64, error) {
	a := c.begin(scripts.Settle)
	for i := range items {
		item := &items[i]
		a.number(int64(item.Limit + 1))
		a.text(item.ID)
		a.number(item.Cost)
		if item.Again {
			a.text("+" + strconv.FormatInt(item.Used, 10))
		} else {
			a.number(item.Used)
		}
		a.flow(&item.Flow)
	}
	reply, r, err := c.run(ctx, scripts.Settle)
	if err != nil {
		return reply, nil, err
	}
	changed := make([]int64, len(items))
	for i := range changed {
		changed[i] = NotKnown
		if n := r.numbers(1); n != nil {
			changed[i] = n[0]
		}
	}
	return reply, changed, r.err
}

// Pause makes no call due for a time. If it keeps, stored permits stay. It returns for each limit how long its pause lasts.
func Pause(ctx context.Context, c *Call, d time.Duration, reason string, keeps bool) (Reply, []time.Duration, error) {
	return c.pause(ctx, d, reason, keeps, 0)
}

func (c *Call) pause(ctx context.Context, d time.Duration, reason string, keeps bool, every time.Duration) (Reply, []time.Duration, error) {
	a := c.begin(scripts.Pause)
	a.number(d.Microseconds())
	a.text(reason)
	a.flag(keeps)
	if every > 0 {
		a.number(every.Microseconds())
	}
	reply, r, err := c.run(ctx, scripts.Pause)
	if err != nil {
		return reply, nil, err
	}
	left := make([]time.Duration, len(c.Limits))
	for i := range left {
		left[i] = r.micros()
	}
	return reply, left, r.err
}

// Resume ends pauses. With the answers of Probe, it ends those hard stops alone.
func Resume(ctx context.Context, c *Call, stops ...int64) (Reply, error) {
	a := c.begin(scripts.Resume)
	for _, stop := range stops {
		a.number(stop)
	}
	reply, _, err := c.run(ctx, scripts.Resume)
	return reply, err
}

// Raises says what Level does to a limit that has fewer permits left.
type Raises int

// The limit keeps what it has, gets all, or gets the part of one process: others may know of the same permits.
const (
	RaisesNothing Raises = iota
	RaisesAll
	RaisesPart
)

// Level sets how many permits are left of each limit; below 0: all. It returns what was left of each before.
func Level(ctx context.Context, c *Call, permits float64, raises Raises) (Reply, []int64, error) {
	a := c.begin(scripts.Level)
	if permits < 0 {
		a.text("")
	} else {
		a.float(permits)
	}
	a.number(int64(raises))
	reply, r, err := c.run(ctx, scripts.Level)
	if err != nil {
		return reply, nil, err
	}
	left := make([]int64, len(c.Limits))
	for i := range left {
		left[i] = r.number()
		r.number()
	}
	return reply, left, r.err
}

// Set puts another limit in force, for a time or, with 0, until it is set again.
func Set(ctx context.Context, c *Call, to Terms, d time.Duration) (Reply, error) {
	if is := c.Limits[0].now().Letter; to.Kind != "" && to.Kind != is {
		return Reply{}, fmt.Errorf("%w limit: a plan of kind %s is in force now", fault.ErrInvalid, kindOf(is).Text)
	}
	return c.set(ctx, exact(to.A), exact(to.B), d)
}

// Reset ends what Set began.
func Reset(ctx context.Context, c *Call) (Reply, error) {
	return c.set(ctx, "", "", 0)
}

func (c *Call) set(ctx context.Context, a, b string, d time.Duration) (Reply, error) {
	args := c.begin(scripts.Set)
	args.text(a)
	args.text(b)
	args.number(d.Microseconds())
	reply, _, err := c.run(ctx, scripts.Set)
	return reply, err
}

// forGood is longer than any limit is set for: the limit is in force until it is set again.
const forGood = 1e15 * time.Microsecond

// State is the state of a limit, for people.
type State struct {
	A, B    float64       // in force; 0: the limit has no state, or a problem
	Next    time.Duration // until a call that comes now could have its turn
	Waiting int64         // waiting calls
	Permits int64         // permits that they need
	Paused  time.Duration // until a pause ends; 0: no pause
	Reason  string        // of the pause

	Stored    int64         // permits that could be spent now
	Free      time.Duration // p: until the last spent permit has come back; may be below 0
	Set       bool          // another limit was set …
	SetFor    time.Duration // … and for so long; 0: until it is set again
	Booked    int64         // booked calls that have not come back yet
	Processes int64         // living processes
	Holders   []Holder      // s: the calls that hold slots, the longest first; at most 1,000
}

// Holder is a call that holds slots.
type Holder struct {
	Process string
	Number  int64 // of the call, in its process
	Doing   string
	Cost    int64
	Since   time.Duration // ago
}

// Measure makes one round trip and changes nothing: a process learns from it how far away Redis is. The states of the
// limits are not complete without a second trip: see countUsers.
func Measure(ctx context.Context, c *Call) (Reply, error) {
	c.reads = true
	c.begin(scripts.Inspect)
	reply, _, err := c.run(ctx, scripts.Inspect)
	return reply, err
}

// Inspect returns the states of the limits, and changes nothing.
func Inspect(ctx context.Context, c *Call) (Reply, []State, error) {
	c.reads = true
	c.begin(scripts.Inspect)
	reply, r, err := c.run(ctx, scripts.Inspect)
	if err != nil {
		return reply, nil, err
	}
	states := make([]State, len(c.Limits))
	for i := range states {
		s, limit := &states[i], termsOf(r.text(), inForce{})
		s.A, s.B = limit.a, limit.b
		s.Next, s.Waiting, s.Permits, s.Paused, s.Reason = r.micros(), r.number(), r.number(), r.micros(), r.text()
		s.SetFor, s.Booked, s.Stored, s.Processes = r.micros(), r.number(), r.number(), r.number()
		if s.Set = s.SetFor > 0; s.SetFor > forGood {
			s.SetFor = 0
		}
		if c.Limits[i].HasSlots() {
			s.Holders = r.holders()
		}
		if c.Limits[i].Paced() {
			free, _ := strconv.ParseInt(reply.heads[i].reach, 10, 64)
			s.Free = time.Duration(free) * time.Microsecond
		}
	}
	if r.err != nil {
		return reply, states, r.err
	}
	return reply, states, c.countUsers(ctx, states)
}

// countUsers corrects how many processes live if names belong to a group: the script has counted the
// processes that use any name of the group. It takes one round trip.
func (c *Call) countUsers(ctx context.Context, states []State) error {
	pipe, live := c.Client.Pipeline(), map[*Name]*redis.SliceCmd{}
	for _, l := range c.Limits {
		if l.Name.grouped() && live[l.Name] == nil {
			live[l.Name] = pipe.HMGet(ctx, l.Name.Keys[0], " live")
		}
	}
	var err error
	switch len(live) {
	case 0:
		return nil
	case 1: // one command needs no pipeline, which takes a trip more
		for name := range live {
			live[name] = c.Client.HMGet(ctx, name.Keys[0], " live")
			err = live[name].Err()
		}
	default:
		_, err = pipe.Exec(ctx)
	}
	if err != nil {
		return fault.Classify(err)
	}
	for i, l := range c.Limits {
		if cmd := live[l.Name]; cmd != nil {
			text, _ := cmd.Val()[0].(string)
			users, _ := strconv.ParseInt(text, 10, 64) // without a number no process has used it
			states[i].Processes = min(states[i].Processes, users)
		}
	}
	return nil
}

// holders reads "<process>:<number>:<cost>:<doing>" and micros for each.
func (r *reader) holders() []Holder {
	holders := make([]Holder, 0, 8)
	for n := r.number(); n > 0 && r.err == nil; n-- {
		fields := strings.SplitN(r.text(), ":", 4)
		if len(fields) < 4 {
			r.fail("a holder of slots is none")
			return nil
		}
		cost, _ := strconv.ParseInt(fields[2], 10, 64)
		number, _ := strconv.ParseInt(fields[1], 10, 64)
		holders = append(holders, Holder{Process: fields[0], Number: number, Doing: fields[3], Cost: cost, Since: r.micros()})
	}
	return holders
}

// HeldBy says which slots of a limit the calls of a process hold.
type HeldBy struct {
	Mine  []Mine
	Count int  // how many calls of all processes were read
	All   bool // these are all calls that hold slots
}

// Mine is a call that holds slots.
type Mine struct {
	Number, Cost int64
	Doing        string
	Since        float64 // Redis's time, in micros
	Freed        bool    // somebody has taken the slots away from it
}

// Held returns which slots a process holds. It reads the calls of each log that have held slots for the
// longest time.
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

// Package wire calls the scripts of package lua. It writes their arguments, and reads their replies and
// errors. It stores what a process has to remember about each limit from one reply to the next.
package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// Caller is what a script call says about its process.
type Caller struct {
	Process string // a name of its own, without spaces and colons
	Run     string // the run ID of the server; empty: not known; behind AnyRun: perhaps it is another one
	Channel string // for news; empty: none
	Serial  int64  // of the call; the same if it is repeated

	Way     time.Duration // the time from Redis back to the process
	Horizon time.Duration // how far ahead turns may be granted
	Near    time.Duration // the same, if permits of another limit would be lost meanwhile
	Grace   time.Duration // for how long permits wait for the head of a queue

	Lost time.Time // when the process learned that Redis lost its data; zero: it did not
}

// AnyRun is before a run ID if another server may answer. Then the script reads the run ID of its server.
const AnyRun = "?"

// Ask names an ask: its process and serial.
func (c Caller) Ask() string {
	var room [64]byte
	return string(strconv.AppendInt(append(append(room[:0], c.Process...), ' '), c.Serial, 10))
}

// CallID names a call of a process in Redis.
func CallID(process string, number int64) string {
	return process + ":" + strconv.FormatInt(number, 10)
}

// Call is a script call for some limits.
type Call struct {
	Caller
	Client redis.UniversalClient
	Limits []*Limit
	Buffer *Buffer  // nil: a new one
	Back   []string // per limit the names of asks whose turns go back, with a ; between them; nil: none
	Now    time.Time
	Clock  int64 // Redis's time then, in micros, as far as the process knows it from any limit; 0: not known
	// Unstepped is the same by Redis's clock of before, if it has stepped ahead of late. 0: it has not.
	Unstepped int64

	// Sent is when the last request of the call was sent, by Time, if Redis lacked a script or gave no turns without
	// the queue. The trips before it say nothing about the way. Zero: the call needed one request.
	Sent time.Time
	Time func() time.Time

	reads bool // it changes nothing in Redis
}

// again notes that the call needs another request.
func (c *Call) again() {
	if c.Time != nil {
		c.Sent = c.Time()
	}
}

// Reply is the first part of every reply.
type Reply struct {
	Micros int64 // Redis's time
	heads  []head
	known  []string // the known texts when the call was made
}

// head is the part of a reply about one limit. Without a version the reply says nothing about the limit.
type head struct {
	version     int64
	reach, text string
	problem     error
}

// AnyProblem returns the first problem of any limit, or nil.
func (r *Reply) AnyProblem() error {
	for i := range r.heads {
		if r.heads[i].problem != nil {
			return r.heads[i].problem
		}
	}
	return nil
}

// Problem returns the problem of the limit at an index, or nil.
func (r *Reply) Problem(i int) error { return r.heads[i].problem }

// Tells reports whether the reply says something about the limit at an index.
func (r *Reply) Tells(i int) bool { return r.heads[i].version > 0 }

// begin begins the arguments of the call: it writes the arguments of all scripts.
func (c *Call) begin(script *redis.Script) *args {
	if c.Buffer == nil {
		c.Buffer = &Buffer{}
	}
	b := c.Buffer
	a := &b.args
	a.begin(script, scripts.KeysOfLimit*len(c.Limits))
	for _, l := range c.Limits {
		a.all = append(a.all, l.keys...)
	}
	first := a.more(scripts.ArgsOfAll)
	a.setNumber(first+scripts.ArgWay, c.Way.Microseconds())
	a.setNumber(first+scripts.ArgHorizon, c.Horizon.Microseconds())
	a.setNumber(first+scripts.ArgNear, c.Near.Microseconds())
	a.setNumber(first+scripts.ArgGrace, c.Grace.Microseconds())
	a.setText(first+scripts.ArgRun, c.Run)
	a.setText(first+scripts.ArgProcess, c.Process)
	a.setNumber(first+scripts.ArgSerial, c.Serial)
	a.setText(first+scripts.ArgChannel, c.Channel)
	b.heads, b.known = slices.Grow(b.heads[:0], len(c.Limits))[:len(c.Limits)], b.known[:0]
	clear(b.heads)
	for i, l := range c.Limits {
		back := ""
		if c.Back != nil {
			back = c.Back[i]
		}
		b.known = append(b.known, l.tell(a, c, back))
	}
	return a
}

// run makes the call, and returns the rest of the reply. If the call failed, the buffer is not used again,
// as the client may not have sent it yet.
func (c *Call) run(ctx context.Context, script *redis.Script) (Reply, *reader, error) {
	b := c.Buffer
	reply := Reply{heads: b.heads, known: b.known}
	values, err := c.once(ctx, script, b.args.all, scripts.KeysOfLimit*len(c.Limits))
	if err != nil {
		c.Buffer = nil
		return reply, nil, err
	}
	r := &b.reader
	*r = reader{values: values}
	reply.Micros = r.number()
	for i := range reply.heads {
		r.head(&reply.heads[i])
	}
	return reply, r, r.err
}

// Learn stores what a reply says about the limits of its call. `arrived` is when it arrived, or when it
// would have arrived on a trip as fast as others. It returns the run ID of the server, if the reply tells it. It
// also returns the limits that now have a newer plan of another process, and those of which Redis had lost the state.
func (c *Call) Learn(r *Reply, arrived time.Time) (run string, follow, anew []*Limit) {
	for i := range r.heads {
		follows, begins := c.Limits[i].learn(&r.heads[i], r.known[i], r.Micros, c, arrived)
		if follows {
			follow = append(follow, c.Limits[i])
		}
		if begins {
			anew = append(anew, c.Limits[i])
		}
		if text := strings.TrimPrefix(r.heads[i].text, "~"); text != "" {
			_, rest, _ := strings.Cut(text, " ")
			if run, _, _ = strings.Cut(rest, " "); run == "-" {
				run = ""
			}
		}
	}
	return run, follow, anew
}

// reader reads a reply from the front.
type reader struct {
	values []any
	err    error
}

func (r *reader) next() any {
	if len(r.values) == 0 {
		r.fail("the reply is too short")
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errUnreadable, what)
	}
}

// number reads a whole number, cut to what an int64 holds; an empty text is 0.
func (r *reader) number() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		if v == "" {
			return 0
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			r.fail(fmt.Sprintf("want a number, got %q", v))
		}
		return n
	default:
		r.fail(fmt.Sprintf("want a number, got %v", v))
		return 0
	}
}

func (r *reader) text() string {
	switch v := r.next().(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		r.fail(fmt.Sprintf("want a text, got %v", v))
		return ""
	}
}

func (r *reader) micros() time.Duration {
	return time.Duration(min(max(r.number(), -farthest), farthest)) * time.Microsecond
}

// farthest is the longest time, in micros: some 250 years, as twice as long is no time.Duration. A long
// queue of a slow limit may have calls whose turns are further away.
const farthest = 8e15

func (r *reader) head(h *head) {
	h.version = r.number()
	h.reach, h.text = r.text(), r.text()
	if problem := r.text(); problem != "" {
		h.problem = problemOf(problem)
	}
}

// errUnreadable is the error for a reply that the script does not give.
var errUnreadable = fmt.Errorf("%w: the reply can not be read; is another version of fleetpace at work here?", fault.ErrCorrupt)

// Protocol is the protocol that the scripts speak: see lua.Protocol.
const Protocol = scripts.Protocol

// Version is the error of a limit that other processes use, of a protocol beside which this one cannot work.
func Version(theirs int) error {
	of, do := "an earlier version of fleetpace", "stop them first, or upgrade by the versions between"
	switch {
	case theirs > Protocol:
		of, do = "a later version of fleetpace", "upgrade this process"
	case theirs == 2: // see lua/beat.lua
		of, do = "fleetpace v0.2", "stop them first, and calls succeed a few seconds later"
	}
	return fmt.Errorf("%w: processes of %s use the limit (protocol %d, and this process speaks %d); %s: %supgrading.md",
		fault.ErrVersion, of, theirs, Protocol, do, fault.Docs)
}

// ErrAgain says that the call may be made again: the process now knows what it did not know before.
var ErrAgain = fmt.Errorf("%w", fault.ErrInvalid)

// ErrClock says that the windows of a quota were computed by a clock that is not Redis's. From now on
// Redis's time is known, and the call may be made again.
var ErrClock = fmt.Errorf("%w clock", ErrAgain)

// problemOf reads what a script says is wrong with one limit.
func problemOf(text string) error {
	code, rest, _ := strings.Cut(text, " ")
	switch code {
	case "BADARG":
		return fmt.Errorf("%w argument: %s", fault.ErrInvalid, rest)
	case "PROTOCOL":
		number, _ := strconv.Atoi(rest)
		return Version(number)
	case "CLOCK":
		return fmt.Errorf("%w argument: %s", ErrClock, rest)
	case "PLAN":
		return problemOfPlan(rest)
	case "EXCEEDS":
		return fmt.Errorf("%w %w: %s", fault.ErrInvalid, fault.ErrExceeds, rest)
	case "BADSTATE":
		if reply, ok := strings.CutPrefix(rest, "key: "); ok {
			return fault.Classify(refused(reply))
		}
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, rest)
	default:
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, text)
	}
}

// refused is the error that Redis gives to a command of a script.
type refused string

func (r refused) Error() string { return string(r) }
func (refused) RedisError()     {}

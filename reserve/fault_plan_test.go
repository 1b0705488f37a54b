package reserve_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// fault is what goes wrong for a while, or at one moment.
type fault struct {
	kind     kind
	from, to time.Duration // since the start; moments have from only
	process  int           // whom it strikes; -1: all
	chance   float64       // of a message to be struck, for faults of messages
	step     time.Duration // of the server's clock
	text     string        // of the server's refusal
}

type kind string

// Faults of single messages.
const (
	dropRequest  kind = "request never arrives"
	resetBefore  kind = "reset before the request arrives"
	delayRequest kind = "request is late"
	loseReply    kind = "reply never arrives"
	cutAfter     kind = "cut after execution"
	cutMid       kind = "cut in the reply"
	delayReply   kind = "reply is late"
)

// Faults of the way or the server for a while.
const (
	partition kind = "partition"      // messages vanish
	hold      kind = "hold"           // messages are held, and arrive together afterwards
	down      kind = "server is down" // connections break and are refused; the data stays
	refusal   kind = "server refuses" // every command has the same error
	restart   kind = "restarts empty" // down, and the data is gone
	rollBack  kind = "fails over"     // down, and the data is that of some time before
)

// Faults of one moment.
const (
	flush       kind = "FLUSHALL"
	deleteState kind = "the state is deleted"
	deleteList  kind = "a list is deleted"
	clockStep   kind = "the clock steps"
	scriptFlush kind = "SCRIPT FLUSH"
)

var (
	ofMessages = []kind{dropRequest, resetBefore, delayRequest, loseReply, cutAfter, cutMid, delayReply}
	ofTheWay   = []kind{partition, hold, down, refusal}
	ofTheData  = []kind{flush, deleteState, deleteList, restart, rollBack}
	refusals   = []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"ERR max number of clients reached",
		"NOAUTH Authentication required.",
		"NOPERM User default has no permissions to run the 'evalsha' command",
	}
)

// loses reports whether the server loses data, wholly or in part.
func (k kind) loses() bool { return k.is(flush, deleteState, deleteList, restart, rollBack) }

func (k kind) is(kinds ...kind) bool {
	for _, other := range kinds {
		if k == other {
			return true
		}
	}
	return false
}

// plan is a history before it happens: everything in it follows from the seed.
type plan struct {
	seed   uint64
	start  time.Time
	policy string
	rate   float64 // permits per second
	burst  int

	request []time.Duration // one way to the server, per process
	reply   time.Duration   // one way back: the same for all, or calls would jitter
	timeout []time.Duration // of a reply, per process
	callers []caller

	faults []fault
	ends   time.Duration // when no fault is left, nor what it delayed

	cancels bool // some calls give up
}

// caller makes calls one after the other.
type caller struct {
	process, number int
	kind            string // wait, reserve, allow
	starts          time.Duration
	apart           time.Duration // mean time between the begins of two calls
	calls           int
	givesUp         float64 // chance of a call to have a deadline or to be cancelled
}

const (
	warmUp     = 400 * time.Millisecond // before the first fault: all processes have called
	longDelay  = 2 * time.Second        // of a message, at the most
	dialTime   = time.Second            // a process waits for a connection
	maxTimeout = time.Second            // and for a reply, at the most
)

func (p *plan) interval() time.Duration {
	return time.Duration(float64(time.Second) / p.rate)
}

// newPlan draws a history. Every choice of what may happen is drawn first, so
// that a history with few kinds of faults is as likely as one with all.
func newPlan(seed uint64) *plan {
	p := &plan{seed: seed}
	r := p.random("plan")
	p.policy = []string{"local", "wait", "fail", "open"}[r.IntN(4)]
	p.rate = float64(20 + r.IntN(41))
	if r.IntN(10) < 3 {
		p.rate = float64(60 + r.IntN(141))
	}
	p.burst = 1 + r.IntN(4)
	processes := 2 + r.IntN(3)
	p.reply = 100*time.Microsecond + time.Duration(r.IntN(1_500_000))
	for range processes {
		p.request = append(p.request, 100*time.Microsecond+time.Duration(r.IntN(1_500_000)))
		p.timeout = append(p.timeout, 200*time.Millisecond+time.Duration(r.IntN(801))*time.Millisecond)
	}
	length := time.Duration(min(4, max(0.8, 90/p.rate)*(0.7+0.6*r.Float64())) * float64(time.Second))
	p.cancels = r.IntN(2) == 0
	p.drawCallers(r, processes, length)
	p.drawFaults(r, processes, length)
	for _, f := range p.faults {
		end := max(f.from, f.to)
		if f.kind.is(delayRequest, delayReply) {
			end += longDelay
		}
		p.ends = max(p.ends, end)
	}
	return p
}

func (p *plan) drawCallers(r *rand.Rand, processes int, length time.Duration) {
	n := processes + r.IntN(2*processes+1)
	load := []float64{0.4, 1, 2}[r.IntN(3)] // of the line, if each call had one permit
	calls := min(80, max(40, int(p.rate*(length+warmUp).Seconds()*load)))
	for i := range n {
		c := caller{
			process: i % processes, number: i,
			kind:   []string{"wait", "wait", "reserve", "allow"}[r.IntN(4)],
			starts: time.Duration(i)*3*time.Millisecond + time.Duration(r.IntN(1_000_000)),
			calls:  1 + calls/n,
		}
		if i < processes {
			c.kind = "wait"
		}
		c.apart = (length + warmUp) / time.Duration(c.calls)
		if p.cancels {
			c.givesUp = 0.3 * r.Float64()
		}
		p.callers = append(p.callers, c)
	}
}

func (p *plan) drawFaults(r *rand.Rand, processes int, length time.Duration) {
	families := 1 + r.IntN(7) // bits: messages, way, data and clock
	if r.IntN(3) == 0 {
		families = 1 + r.IntN(3) // the network alone
	}
	moment := func() time.Duration {
		return warmUp + time.Duration(r.Float64()*float64(length)) + time.Duration(r.IntN(1000))
	}
	whom := func() int {
		if r.IntN(3) == 0 {
			return -1
		}
		return r.IntN(processes)
	}
	if families&1 != 0 {
		for range 1 + r.IntN(3) {
			from := moment()
			p.faults = append(p.faults, fault{
				kind: ofMessages[r.IntN(len(ofMessages))], process: whom(), chance: 0.05 + 0.6*r.Float64(),
				from: from, to: from + time.Duration(r.Float64()*float64(length)/2),
			})
		}
	}
	if families&2 != 0 {
		for range 1 + r.IntN(2) {
			f := fault{kind: ofTheWay[r.IntN(len(ofTheWay))], process: whom(), from: moment()}
			f.to = f.from + time.Duration((0.05+r.Float64()*1.5)*float64(time.Second))
			if f.kind.is(down, refusal) {
				f.process = -1
			}
			f.text = refusals[r.IntN(len(refusals))]
			p.faults = append(p.faults, f)
		}
	}
	if families&4 != 0 {
		for range 1 + r.IntN(2) {
			f := fault{kind: ofTheData[r.IntN(len(ofTheData))], process: -1, from: moment()}
			if r.IntN(3) == 0 {
				// Anything less than a second can not be told from a delay.
				f.kind = clockStep
				f.step = 2*time.Second + time.Duration(r.Float64()*r.Float64()*float64(10*time.Minute))
				if r.IntN(2) == 0 {
					f.step = -f.step
				}
			}
			if f.kind.is(restart, rollBack) {
				f.to = f.from + time.Duration(r.Float64()*float64(time.Second))
			}
			p.faults = append(p.faults, f)
		}
	}
	if r.IntN(4) == 0 {
		p.faults = append(p.faults, fault{kind: scriptFlush, process: -1, from: moment()})
	}
}

// at returns a fault of one of the kinds that strikes a process at a time.
func (p *plan) at(now time.Duration, process int, kinds ...kind) *fault {
	for i := range p.faults {
		f := &p.faults[i]
		if f.from <= now && now < f.to && (f.process < 0 || f.process == process) && f.kind.is(kinds...) ||
			f.from <= now && now < f.to && f.kind.is(restart, rollBack) && down.is(kinds...) {
			return f
		}
	}
	return nil
}

// until is how long a fault lasts from now, and a little, so that it is over then.
func (p *plan) until(n *network, f *fault) time.Duration { return f.to - since(n) + 1 }

type fate struct {
	kind  kind
	delay time.Duration
}

// fate is what happens to a message that is written now.
func (p *plan) fate(random *rand.Rand, now time.Duration, process int) fate {
	for _, f := range p.faults {
		if f.from <= now && now < f.to && (f.process < 0 || f.process == process) && f.kind.is(ofMessages...) &&
			random.Float64() < f.chance {
			delay := time.Duration(random.Float64() * random.Float64() * float64(longDelay))
			return fate{f.kind, max(time.Millisecond, delay)}
		}
	}
	return fate{}
}

// has reports whether a fault of one of the kinds is planned.
func (p *plan) has(kinds ...kind) bool {
	for _, f := range p.faults {
		if f.kind.is(kinds...) {
			return true
		}
	}
	return false
}

// events is how many moments lose state or step the clock.
func (p *plan) events() (n int) {
	for _, f := range p.faults {
		if f.kind.loses() || f.kind == clockStep {
			n++
		}
	}
	return n
}

// brief names the policy and the faults.
func (p *plan) brief() string {
	parts := []string{p.policy}
	for _, f := range p.faults {
		parts = append(parts, string(f.kind))
	}
	return strings.Join(parts, ", ")
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s, %v/s, burst %d, %d processes, %d callers, replies take %v\n",
		p.policy, p.rate, p.burst, len(p.request), len(p.callers), p.reply)
	for i := range p.request {
		fmt.Fprintf(&b, "  process %d: requests take %v, time-out %v\n", i, p.request[i], p.timeout[i])
	}
	for _, c := range p.callers {
		fmt.Fprintf(&b, "  caller %d of process %d: %d times %s, %v apart, gives up %.2f\n",
			c.number, c.process, c.calls, c.kind, c.apart, c.givesUp)
	}
	for _, f := range p.faults {
		fmt.Fprintf(&b, "  %v to %v: %s, process %d", f.from, f.to, f.kind, f.process)
		switch {
		case f.chance > 0:
			fmt.Fprintf(&b, ", chance %.2f", f.chance)
		case f.kind == clockStep:
			fmt.Fprintf(&b, ", by %v", f.step)
		case f.kind == refusal:
			fmt.Fprintf(&b, ", %s", f.text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

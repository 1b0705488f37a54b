package reserve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// trouble is what goes wrong for a while, or at one moment.
type trouble struct {
	what     string
	from, to time.Duration // since the start; moments have from only
	process  int           // whom it strikes; -1: all
	chance   float64       // of a message to be struck
	step     time.Duration // of the server's clock
	text     string        // of the server's refusal
}

// Troubles of single messages.
const (
	dropRequest  = "request never arrives"
	resetBefore  = "reset before the request arrives"
	delayRequest = "request is late"
	loseReply    = "reply never arrives"
	cutAfter     = "cut after execution"
	cutMid       = "cut in the reply"
	delayReply   = "reply is late"
)

// Troubles of the way or the server for a while.
const (
	partition = "partition"      // messages vanish
	hold      = "hold"           // messages are held, and arrive together afterwards
	down      = "server is down" // connections break and are refused; the data stays
	refusal   = "server refuses" // every command has the same error
	restart   = "restarts empty" // down, and the data is gone
	rollBack  = "fails over"     // down, and the data is that of some time before
	loseNews  = "news are lost"  // of those who hear them, some messages do not arrive
)

// Troubles of one moment.
const (
	flush       = "FLUSHALL"
	deleteState = "the state is deleted"
	deleteQueue = "the queue is deleted"
	clockStep   = "the clock steps"
	scriptFlush = "SCRIPT FLUSH"
	cutNews     = "connections that hear news break"
)

var (
	ofMessages = []string{dropRequest, resetBefore, delayRequest, loseReply, cutAfter, cutMid, delayReply}
	ofTheWay   = []string{partition, hold, down, refusal}
	ofTheData  = []string{flush, deleteState, deleteQueue, restart, rollBack}
	refusals   = []string{
		loading,
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"ERR max number of clients reached",
		"NOPERM User default has no permissions to run the 'evalsha' command",
	}
)

func (f *trouble) is(kinds ...string) bool { return slices.Contains(kinds, f.what) }

// plan is a history before it happens. All of it follows from the seed.
type plan struct {
	seed   uint64
	policy reserve.Policy
	rate   float64 // permits per second
	burst  int
	slots  int // above 0: the limit is of so many slots instead

	way     []time.Duration // to the server, and back, per process
	timeout []time.Duration // of a reply, per process
	callers []caller

	troubles []trouble
	ends     time.Duration // when none is left, nor what it delayed
}

// caller makes calls one after the other.
type caller struct {
	process, number int
	verb            string // wait, reserve, ask, allow
	apart           time.Duration
	givesUp         float64 // chance of a call to have a deadline or to be cancelled
}

const (
	warmUp     = 500 * time.Millisecond // before the first trouble: all processes have called
	longDelay  = 2 * time.Second        // of a message, at the most
	maxTimeout = time.Second            // of a reply, and of a connection
)

func (p *plan) interval() time.Duration { return time.Duration(float64(time.Second) / p.rate) }

// random is a source of its own for everything that has a name.
func (p *plan) random(name string, n int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, uint64(len(name))<<32+uint64(n)))
}

// newPlan draws a history. Which families of troubles may happen is drawn first, so that a
// history with few kinds is as likely as one with all.
func newPlan(seed uint64) *plan {
	p := &plan{seed: seed}
	r := p.random("plan", 0)
	p.policy = []reserve.Policy{reserve.PolicyLocal, reserve.PolicyWait, reserve.PolicyFail, reserve.PolicyOpen}[r.IntN(4)]
	p.rate = float64(20 + r.IntN(61))
	p.burst = 1 + r.IntN(4)
	processes := 2 + r.IntN(3)
	for range processes {
		p.way = append(p.way, 100*time.Microsecond+time.Duration(r.IntN(1_500_000)))
		p.timeout = append(p.timeout, 200*time.Millisecond+time.Duration(r.IntN(801))*time.Millisecond)
	}
	length := time.Duration((1 + 2*r.Float64()) * float64(time.Second))
	quits := 0.3 * float64(r.IntN(2)) * r.Float64()
	n := processes + r.IntN(2*processes+1)
	load := []float64{0.4, 1, 2}[r.IntN(3)]
	for i := range n {
		p.callers = append(p.callers, caller{
			process: i % processes, number: i, givesUp: quits,
			verb:  []string{"wait", "wait", "reserve", "ask", "allow"}[r.IntN(5)],
			apart: time.Duration(float64(n) / (p.rate * load) * float64(time.Second)),
		})
	}
	p.draw(r, processes, length)
	return p
}

func (p *plan) draw(r *rand.Rand, processes int, length time.Duration) {
	families := 1 + r.IntN(7) // bits: messages, way, data and clock
	moment := func() time.Duration { return warmUp + time.Duration(r.Float64()*float64(length)) }
	whom := func() int { return r.IntN(processes+1) - 1 }
	var all []trouble
	if families&1 != 0 {
		for range 1 + r.IntN(3) {
			from := moment()
			all = append(all, trouble{
				what: ofMessages[r.IntN(len(ofMessages))], process: whom(), chance: 0.05 + 0.6*r.Float64(),
				from: from, to: from + time.Duration(r.Float64()*float64(length)/2),
			})
		}
	}
	if families&2 != 0 {
		f := trouble{what: ofTheWay[r.IntN(len(ofTheWay))], process: whom(), from: moment(), text: refusals[r.IntN(len(refusals))]}
		f.to = f.from + time.Duration((0.05+r.Float64()*1.5)*float64(time.Second))
		if f.is(down, refusal) {
			f.process = -1
		}
		all = append(all, f)
	}
	if families&4 != 0 {
		f := trouble{what: ofTheData[r.IntN(len(ofTheData))], process: -1, from: moment()}
		if r.IntN(3) == 0 {
			f.what = clockStep // what is less than two seconds can not be told from a delay
			f.step = (2*time.Second + time.Duration(r.Float64()*r.Float64()*float64(10*time.Minute))) * time.Duration(1-2*r.IntN(2))
		}
		if f.is(restart, rollBack) {
			f.to = f.from + time.Duration(r.Float64()*float64(time.Second))
		}
		all = append(all, f)
	}
	if r.IntN(4) == 0 {
		all = append(all, trouble{what: scriptFlush, process: -1, from: moment()})
	}
	p.suffer(all...)
}

// suffer lets troubles happen.
func (p *plan) suffer(all ...trouble) {
	p.troubles, p.ends = all, warmUp
	for _, f := range all {
		end := max(f.from, f.to)
		if f.is(delayRequest, delayReply) {
			end += longDelay
		}
		p.ends = max(p.ends, end)
	}
}

// at returns a trouble of one of the kinds that a process has at a time; nil: none.
func (p *plan) at(now time.Duration, process int, kinds ...string) *trouble {
	for i := range p.troubles {
		f := &p.troubles[i]
		if f.from <= now && now < f.to && (f.process < 0 || f.process == process) &&
			(f.is(kinds...) || f.is(restart, rollBack) && slices.Contains(kinds, down)) {
			return f
		}
	}
	return nil
}

// has reports whether troubles of one of the kinds are planned.
func (p *plan) has(kinds ...string) bool {
	return slices.ContainsFunc(p.troubles, func(f trouble) bool { return f.is(kinds...) })
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s, %v/s, burst %d, ways %v, time-outs %v\n", p.policy, p.rate, p.burst, p.way, p.timeout)
	for _, c := range p.callers {
		fmt.Fprintf(&b, "  caller %d of process %d: %s, %v apart, gives up %.2f\n", c.number, c.process, c.verb, c.apart, c.givesUp)
	}
	for _, f := range p.troubles {
		fmt.Fprintf(&b, "  %v to %v: %s, process %d, chance %.2f, step %v, %s\n", f.from, f.to, f.what, f.process, f.chance, f.step, f.text)
	}
	return b.String()
}

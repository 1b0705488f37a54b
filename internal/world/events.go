package world

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/smallredis"
	"github.com/fleetpace/fleetpace/reserve"
)

// Events that affect messages, for a while and by chance.
const (
	requestLost   = "request-lost"
	requestLate   = "request-late"
	requestCopied = "request-copied" // a copy arrives late
	cutBefore     = "cut-before"     // the connection breaks before the request arrives
	cutAfter      = "cut-after"      // … after the server has run it
	replyLost     = "reply-lost"
	replyLate     = "reply-late"
	newsLost      = "news-lost"
)

// Events that affect the link of a process, for a while.
const (
	partition = "partition" // all messages vanish
	hold      = "hold"      // all messages are held, and arrive together afterwards
	far       = "far"       // the round trip takes longer
)

// Events that affect the server for a while …
const (
	down     = "down"      // connections break and are refused; the data stays
	restart  = "restart"   // the same, and the data is gone
	failOver = "fail-over" // the same, and then the data is that of some time before
	freeze   = "freeze"    // it answers nothing, and then everything at once
	refuse   = "refuse"    // every command has the same error
	full     = "full"      // it has no memory left
)

// … or at a moment.
const (
	flush       = "flush"        // all data is deleted
	forget      = "forget"       // the state of a limit is deleted
	forgetQueue = "forget-queue" // its queue is
	clockStep   = "clock-step"   // its clock steps
	scriptFlush = "script-flush" // it forgets the scripts
	newsCut     = "news-cut"     // connections that hear news break
)

// Events that affect processes.
const (
	kill    = "kill"
	start   = "start"   // another process starts, with as many callers as an existing one
	crashes = "crashes" // processes start and are killed, again and again
	stop    = "stop"    // nothing happens in it until it continues
	other   = "other"   // a process starts that has a limit of another kind under the same name
)

// Actions of operators.
const (
	pause    = "pause"     // again and again, if it lasts
	hardStop = "hard-stop" // of a limit: see stops.go
	resume   = "resume"
	set      = "set" // again and again between two limits, if it lasts
	reset    = "reset"
	replan   = "replan" // one process, or all, have another plan: again and again, if it lasts
)

var (
	ofMessages  = []string{requestLost, requestLate, requestCopied, cutBefore, cutAfter, replyLost, replyLate, newsLost}
	ofTheWay    = []string{partition, hold, far}
	ofTheServer = []string{down, restart, failOver, freeze, refuse, full}
	ofMoments   = []string{flush, forget, clockStep, scriptFlush, newsCut, forgetQueue}
	ofProcesses = []string{kill, start, crashes, stop, other}
	ofOperators = []string{pause, hardStop, resume, set, reset, replan}
)

var refusals = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"CLUSTERDOWN The cluster is down",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"ERR max number of clients reached",
}

// happen plans an event.
func (w *world) happen(e *event) {
	begin, end := w.effect(e)
	if slices.Contains(ofTheWay, e.what) {
		begin = func() {}
	}
	if begin != nil {
		w.at(e.at, func() {
			w.note("%s", e)
			w.strikes[e]++
			begin()
		})
	}
	if end != nil {
		w.at(e.at+e.lasts, func() {
			w.note("%s is over", e.what)
			end()
		})
	}
}

// effect returns what an event does when it begins and when it ends. Events that affect messages are looked
// up when a message is sent.
func (w *world) effect(e *event) (begin, end func()) {
	r := w.server
	switch e.what {
	case down, restart, failOver:
		var data smallredis.Data
		if e.what == failOver {
			w.at(max(0, e.at-e.by), func() { data = r.Data })
		}
		return func() {
				r.down = true
				w.breakAll()
				switch e.what {
				case restart:
					r.restart(nil)
					w.olderSets(anyLimit, 0)
				case failOver:
					r.restart(data)
					w.olderSets(anyLimit, max(0, e.at-e.by))
				}
			}, func() {
				r.down = false
			}
	case freeze:
		return r.freeze, r.thaw
	case refuse:
		return func() { r.refuses = e.to }, func() { r.refuses = "" }
	case full:
		return func() { r.Full = true }, func() { r.Full = false }
	case flush:
		return func() {
			r.Data = nil
			w.olderSets(anyLimit, 0)
		}, nil
	case forget:
		return func() {
			r.Data = r.Data.Without(w.key(e.limit))
			w.olderSets(e.limit, 0)
		}, nil
	case forgetQueue:
		return func() { r.Data = r.Data.Without(w.plan.keys(e.limit, "")[1]) }, nil
	case clockStep:
		return func() {
			r.step += e.by
			for _, m := range w.meters {
				if q, counts := m.provider.(*quota); counts { // the windows of the limit have moved
					q.began += (e.by%q.window + q.window) % q.window
				}
			}
		}, nil
	case scriptFlush:
		return func() { clear(r.loaded) }, nil
	case newsCut:
		return w.cutNews, nil
	case kill:
		return func() { w.kill(e.process) }, nil
	case start:
		return func() { w.join(w.start(e.process), w.plan.until) }, nil
	case stop:
		return func() { w.stop(e.process, true) }, func() { w.stop(e.process, false) }
	case other:
		return func() {
			p := w.start(e.process)
			p.other, p.kind, p.strange = e.limit, w.limitOf(e.to), true
			w.join(p, w.plan.until)
		}, nil
	case crashes:
		return func() { w.crash(e, w.plan.source("crash", 0)) }, nil
	case pause:
		return func() { w.again(e, func(int) { w.operator.pause(e.limit, e.by) }) }, nil
	case hardStop:
		return func() { w.operator.stopLimit(e) }, nil
	case resume:
		return func() { w.operator.resume(e.limit) }, nil
	case set:
		return func() { w.again(e, func(n int) { w.change(e, n) }) }, nil
	case reset:
		return func() { w.operator.reset(e.limit) }, nil
	case replan:
		return func() { w.again(e, func(n int) { w.replan(e, n) }) }, nil
	}
	return nil, nil
}

// crash starts processes and kills each soon after that.
func (w *world) crash(e *event, random *rand.Rand) {
	if w.now >= e.at+e.lasts {
		return
	}
	p := w.start(e.process)
	w.join(p, e.at+e.lasts)
	w.after(20*time.Millisecond+time.Duration(random.Int64N(int64(60*time.Millisecond))), func() { w.end(p) })
	w.strikes[e]++
	w.after(e.by, func() { w.crash(e, random) })
}

// again calls do once, or again and again while an event lasts.
func (w *world) again(e *event, do func(n int)) {
	const least = 50 * time.Millisecond
	every := max(least, e.lasts/20)
	var next func(n int)
	next = func(n int) {
		do(n)
		if w.now+every < e.at+e.lasts {
			w.after(every, func() { next(n + 1) })
		}
	}
	next(0)
}

// limitOf reads a limit of a plan.
func (w *world) limitOf(text string) reserve.Limit {
	limit, err := reserve.ParseLimit(text)
	if err != nil {
		panic(err) // a transcript was checked when it was read
	}
	return limit
}

// replan gives the next version of a plan to a process, or to all, and to each later than to the one before. The
// version is the limit that an event names, and every second time the limit of the plan.
func (w *world) replan(e *event, n int) {
	limit := w.limitOf(e.to)
	if n%2 == 1 {
		limit = w.plan.limits[e.limit].limit
	}
	of := part{limit: e.limit, key: e.key}
	if e.keys > 0 {
		of.key = customer(w.plan.source(e.String(), n).IntN(e.keys))
	}
	w.versions++
	version := w.versions
	w.plans[version] = limit
	for i, p := range w.processes {
		if e.process == anybody || p.n == e.process {
			w.after(time.Duration(i)*e.by, func() {
				if p.plans[of].version < version {
					p.plans[of] = planned{termsOf(limit), version}
				}
			})
		}
	}
	w.note("version %d of the plan of %s/%s is %v", version, w.plan.limits[e.limit].name, of.key, limit)
}

// change sets the limit that an event names, and every second time the limit of the plan.
func (w *world) change(e *event, n int) {
	limit := w.limitOf(e.to)
	if n%2 == 1 {
		limit = w.plan.limits[e.limit].limit
	}
	w.operator.set(e.limit, limit)
}

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/smallredis"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// sum names a state of a world. Worlds with the same name have the same future. They differ only in the
// time of their events, in how often keys were written, and in the names of equal processes.
func (x *explorer) sum(w *world) [16]byte {
	memories := make([]string, len(w.processes))
	for p := range w.processes {
		memories[p] = x.memory(w, p)
	}
	best := ""
	for n, order := range x.orders() {
		c := canon{explorer: x, w: w, order: order, memories: memories}
		c.write()
		if n == 0 || string(c.b) < best {
			best = string(c.b)
		}
	}
	hash := sha256.Sum256([]byte(best))
	return [16]byte(hash[:16])
}

// orders returns the orders in which the processes may be named: all orders if the processes are equal.
func (x *explorer) orders() [][]int {
	if x.permutations == nil {
		plans := map[int][]Plan{}
		for _, plan := range x.Calls {
			plans[plan.Process] = append(plans[plan.Process], plan)
		}
		x.permutations = [][]int{{}}
		for p := range len(plans) {
			var longer [][]int
			for _, order := range x.permutations {
				for at := range len(order) + 1 {
					if at == len(order) || slices.EqualFunc(plans[0], plans[p], same) {
						longer = append(longer, slices.Insert(slices.Clone(order), at, p))
					}
				}
			}
			x.permutations = longer
		}
	}
	return x.permutations
}

// brings returns what a process would send about a limit if it called a script now, and the version in it.
func (x *explorer) brings(w *world, l *wire.Limit, p *process) (args []string, version int64) {
	x.hold = true
	_, _, _ = wire.Inspect(context.Background(), &wire.Call{Client: x.server, Limits: []*wire.Limit{l}, Now: moment(w.now),
		Clock: w.now + p.off, Caller: wire.Caller{Lost: p.lost}}) // the request is kept and not run
	x.hold = false
	args = x.last.args[scripts.ArgsOfAll:]
	version, _ = strconv.ParseInt(args[scripts.LimitVersion], 10, 64)
	return args, version
}

// memory returns what a process remembers, as a text.
func (x *explorer) memory(w *world, p int) string {
	pr, b := &w.processes[p], strings.Builder{}
	for j, l := range pr.limits {
		args, version := x.brings(w, l, pr)
		fmt.Fprintf(&b, "%d %s %d %s %s|", pr.ranks[j], args[scripts.LimitKnown], version-x.version(w.data, j),
			args[scripts.LimitReach], args[scripts.LimitClock])
	}
	fmt.Fprint(&b, pr.dead, pr.met, pr.run)
	return b.String()
}

// version returns the version of the state of a limit.
func (x *explorer) version(d smallredis.Data, j int) (version int64) {
	if k := d.Find(x.keys[j][0]); k != nil {
		version = asMicros(k, "version")
	}
	return version
}

// canon writes a world as a text.
type canon struct {
	*explorer
	w        *world
	order    []int // processes
	memories []string
	b        []byte
}

func (c *canon) write() {
	w := c.w
	c.data(w.data)
	if w.copied {
		c.data(w.replica)
	}
	for _, p := range c.order {
		c.text(c.memories[p])
		var own []string
		for n := range w.calls {
			if c.Calls[n].Process == p {
				own = append(own, c.part(func() { c.call(n, p) }))
			}
		}
		slices.Sort(own)
		c.b = append(c.b, strings.Join(own, ";")...)
	}
	var messages []string
	for _, m := range w.messages {
		messages = append(messages, c.part(func() {
			for _, a := range m.args {
				c.text(a)
			}
			for _, v := range m.reply {
				c.text(fmt.Sprint(v))
			}
		}))
	}
	slices.Sort(messages)
	c.b = append(c.b, strings.Join(messages, ";")...)
	for _, p := range w.providers {
		c.numbers(int64(max(p.tat-float64(w.now), -p.a*p.b-1)), int64(p.held), int64(p.a), int64(p.b), int64(p.follows), count(p.off))
		for _, u := range p.uses {
			if p.counts(u, float64(w.now)) {
				c.numbers(int64(u.at)-w.now, int64(u.cost))
			}
		}
	}
	c.numbers(max(w.paused-w.now, -int64(w.providers[0].a)-1), int64(w.run), int64(w.faults), since(w, w.keeps))
	if c.can(Kill) || c.Limits[0].Kind == "q" { // the next heartbeat matters, or the next window
		c.numbers(w.now % window * count(c.Limits[0].Kind == "q"))
	}
}

// part returns what f writes, as a text of its own.
func (c *canon) part(f func()) string {
	before := c.b
	c.b = nil
	f()
	part := string(c.b)
	c.b = before
	return part
}

func (c *canon) call(n, p int) {
	cl := &c.w.calls[n]
	c.numbers(int64(cl.state), int64(cl.life), cl.number, c.cost(n, 0), since(c.w, cl.due), since(c.w, cl.until), count(cl.sure), count(cl.freed))
	if cl.serial > 0 {
		c.numbers(cl.serial-c.w.processes[p].serial, count(cl.alone))
	}
	if cl.state == waiting || cl.state == unsure {
		for _, t := range cl.tags {
			c.numbers(since(c.w, t-c.w.off*min(t, 1)))
		}
	}
	c.text(cl.back)
}

// since returns a moment relative to now; a moment that is not set stays so.
func since(w *world, at int64) int64 {
	if at <= 0 {
		return -1e15 + at
	}
	return at - w.now
}

func (c *canon) data(d smallredis.Data) {
	for _, k := range d {
		if k.Hash && strings.HasSuffix(k.Name, ":limits") || strings.HasSuffix(k.Name, ":reports") {
			continue
		}
		c.b = append(append(c.b, k.Name...), '=')
		for _, i := range k.Items {
			switch {
			case i.Member == "version", i.Member == "seenMicros" && !c.can(StepBack) && !c.can(StepAhead):
			case k.Hash:
				c.text(i.Member + i.Value)
			case !strings.HasSuffix(k.Name, ":processes"):
				c.text(i.Member + " " + smallredis.Text(i.Score))
			case i.Score < 0 || slices.ContainsFunc(c.w.processes, func(p process) bool { return p.dead && p.name == i.Member }):
				c.text(i.Member + smallredis.Text(i.Score))
			}
		}
	}
	c.b = append(c.b, '\n')
}

func (c *canon) numbers(all ...int64) {
	for _, n := range all {
		c.b = append(strconv.AppendInt(c.b, n, 10), ',')
	}
}

// text writes a text in which times count from now, and serials of processes from the last one.
func (c *canon) text(s string) {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	for i := 0; i < len(s); {
		switch end := digits(i); {
		case end-i >= 15:
			n, _ := strconv.ParseInt(s[i:end], 10, 64)
			c.b = strconv.AppendInt(append(c.b, '@'), n-c.w.redis(), 10)
			i = end
		case end > i:
			c.b = append(c.b, s[i:end]...)
			i = end
		case s[i] == 'p' && digits(i+1) == i+2 && int(s[i+1]-'0') < len(c.w.processes):
			p := int(s[i+1] - '0')
			c.b = append(c.b, 'P', byte('0'+slices.Index(c.order, p)))
			i += 2
			if end := digits(min(i+1, len(s))); i < len(s) && s[i] == ' ' && end > i+1 && end < i+8 {
				n, _ := strconv.ParseInt(s[i+1:end], 10, 64)
				c.numbers(n - c.w.processes[p].serial)
				i = end
			}
		default:
			c.b = append(c.b, s[i])
			i++
		}
	}
	c.b = append(c.b, '|')
}

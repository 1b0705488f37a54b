package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

func moment(micros int64) time.Time { return time.UnixMicro(micros) }

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// talk makes a request of a process to the Redis of a world. All processes receive the news at once.
func (x *explorer) talk(w *world, request func() error) bool {
	x.db.Data, x.db.Now, x.db.Run, x.news, x.record = w.data, w.redis(), w.runID(), nil, nil
	if x.told != nil {
		x.record = func(c command) { w.commands = append(w.commands, c) }
	}
	err := request()
	w.data = x.db.Data
	if err != nil && !errors.Is(err, errHeld) {
		w.fail("protocol", "%v", err)
	}
	for _, text := range x.news {
		x.hear(w, text)
	}
	return err == nil
}

// call returns a script call of a process for some limits.
func (x *explorer) call(w *world, p int, limits ...int) *wire.Call {
	pr := &w.processes[p]
	c := &wire.Call{Client: x.server, Now: moment(w.now), Clock: w.now + pr.off, Caller: wire.Caller{Process: pr.name, Run: pr.run, Channel: "news",
		Serial: pr.serial, Way: x.Way, Horizon: duration(horizon), Near: duration(near), Grace: duration(grace), Lost: pr.lost}}
	if len(limits) == 0 {
		limits = []int{0, 1}[:len(x.Limits)]
	}
	for _, j := range limits {
		pr.limits[j].Name.Rank.Store(pr.ranks[j])
		c.Limits = append(c.Limits, pr.limits[j])
	}
	return c
}

// learn stores what a reply contains about limits.
func (x *explorer) learn(w *world, p int, reply *wire.Reply, sent int64, limits ...int) {
	pr := &w.processes[p]
	pr.limits, pr.ranks = slices.Clone(pr.limits), slices.Clone(pr.ranks)
	c := wire.Call{Caller: wire.Caller{Way: x.Way}}
	for j := range pr.limits {
		if len(limits) == 0 || slices.Contains(limits, j) {
			pr.limits[j] = pr.limits[j].Copy()
			c.Limits = append(c.Limits, pr.limits[j])
		}
	}
	c.Learn(reply, moment(sent).Add(x.Way))
	pr.off = reply.Micros - sent
}

// ask makes a process ask for some calls, or repeat an ask.
func (x *explorer) ask(w *world, p int, calls []int, repeat bool) message {
	pr := &w.processes[p]
	if !repeat {
		pr.serial++
	}
	c := x.call(w, p)
	c.Back = make([]string, len(x.Limits))
	var items []wire.Item
	for _, n := range calls {
		cl, plan := &w.calls[n], x.Calls[n]
		if repeat {
			c.Serial = cl.serial
		}
		cl.serial, cl.alone = c.Serial, len(calls) == 1
		if cl.tags == [2]int64{} && !repeat { // it is new, or had its turn without a tag
			cl.asked = w.now
		}
		item := wire.Item{Count: 1, Number: cl.number, Settles: plan.Real > 0, Flow: plan.Flow}
		if plan.ID != "" {
			item.ID = &wire.ID{Text: x.id(n, cl.life), Patience: plan.Patience}
		} else if plan.Within > 0 && (cl.state == idle || cl.state == unsure) {
			item.Latest = moment(cl.asked).Add(plan.Within)
		}
		for j := range x.Limits {
			if cost := x.cost(n, j); cost > 0 {
				item.Parts = append(item.Parts, wire.Part{Limit: j, Cost: cost, Tag: cl.tags[j]})
			}
			if cl.back != "" {
				c.Back[j] = cl.back
			}
			if repeat {
				c.Back[j] = c.Ask()
			}
		}
		items = append(items, item)
	}
	m := message{process: p, calls: calls, sent: w.now}
	x.talk(w, func() (err error) {
		m.heard, m.answers, err = wire.Ask(context.Background(), c, items)
		return err
	})
	m.request = x.last
	return m
}

// arrive reads the reply to an ask. How is UseLate or Oversleep if the turns are used late or not in time;
// with 0 they are used as soon as they are due. It returns how many turns there were.
func (x *explorer) arrive(w *world, m message, how Action) (turns int) {
	at := m.sent + x.Way.Microseconds()
	x.advance(w, at)
	x.learn(w, m.process, &m.heard, m.sent)
	for i, n := range m.calls {
		cl, a := &w.calls[n], m.answers[i].At(0)
		for j, k := 0, 0; j < len(x.Limits); j++ {
			if x.cost(n, j) > 0 {
				if a.Tags != nil {
					cl.tags[j] = a.Tags[k]
				}
				k++
			}
		}
		switch {
		case errors.Is(a.Refused, wire.ErrAgain): // after this reply the process knows better
			cl.state, cl.due = waiting, w.now
		case a.Refused != nil:
			w.fail("protocol", "call %s is refused: %v", name(n), a.Refused)
		case a.TooLate:
			x.end(w, n)
		case a.Booked:
			cl.state, cl.due, cl.back = booked, at+a.Wait.Microseconds(), ""
		case !a.Turn:
			if a.Tags == nil {
				w.fail("protocol", "call %s has a place and no tag", name(n))
			}
			cl.state, cl.due, cl.back, cl.sure = waiting, at+a.Wait.Microseconds(), "", w.faults == 0
		default:
			turns++
			if within := x.Calls[n].Within; within > 0 && cl.state != waiting && duration(at+a.Wait.Microseconds()-tolerated-cl.asked) > within {
				w.fail("in order", "call %s has its turn in %v, after its deadline", name(n), a.Wait)
			}
			cl.state, cl.back = turn, ""
			cl.from, cl.until = at+a.Wait.Microseconds(), at+a.Until.Microseconds()
			x.overtakes(w, n, m.sent)
			switch cl.due = max(cl.from, w.now); {
			case cl.due > cl.until || how == Oversleep:
				cl.due = -1
			case how == UseLate:
				cl.due = cl.until
			}
		}
	}
	x.tell(w, m)
	x.uses(w)
	return turns
}

// hear passes news that a script has published to all processes.
func (x *explorer) hear(w *world, text string) {
	words := strings.SplitN(text, " ", 4)
	if words[0] == "dead" {
		x.refresh(w, -1)
	}
	if words[0] != "news" {
		return
	}
	j := slices.IndexFunc(x.keys, func(keys []string) bool { return keys[0] == words[3] })
	until := w.redis()
	x.unsettle(w)
	for _, what := range strings.Split(words[1], ",") {
		word, rest, _ := strings.Cut(what, ":")
		switch word {
		case "until":
			until, _ = strconv.ParseInt(rest, 10, 64)
		case "paused":
			for c := range w.calls {
				if cl := &w.calls[c]; cl.state == turn && x.cost(c, j) > 0 && cl.from+w.off < until {
					x.drop(w, c, "")
				}
			}
		case "limit":
			x.shorten(w, j, rest)
			x.refresh(w, j)
		case "overdue":
			x.room(w, j, rest, 1)
		case "room":
			process, n, _ := strings.Cut(rest, ":")
			count, _ := strconv.Atoi(n)
			x.room(w, j, process, count)
		default: // resumed, left, settled
			x.refresh(w, j)
		}
	}
}

// shorten makes granted turns end when they are due, if the limit has changed since.
func (x *explorer) shorten(w *world, limit int, text string) {
	for c := range w.calls {
		cl := &w.calls[c]
		if cl.state == turn && x.cost(c, limit) > 0 && text != "1:0" {
			cl.until = max(cl.from, min(cl.until, w.now))
			cl.due = min(cl.due, cl.until)
		}
	}
}

// room makes the first waiting calls of a process ask at a limit.
func (x *explorer) room(w *world, limit int, process string, n int) {
	for ; n > 0; n-- {
		first := -1
		for c := range w.calls {
			cl := &w.calls[c]
			if cl.state == waiting && cl.due > w.now && w.processes[x.Calls[c].Process].name == process && x.cost(c, max(0, limit)) > 0 &&
				(first < 0 || cl.tags[max(0, limit)] < w.calls[first].tags[max(0, limit)]) {
				first = c
			}
		}
		if first >= 0 {
			w.calls[first].due = w.now
		}
	}
}

// refresh makes the first waiting call of each process ask at a limit; below 0: at any limit.
func (x *explorer) refresh(w *world, limit int) {
	for _, p := range w.processes {
		x.room(w, limit, p.name, 1)
	}
}

// drop gives up an unused turn, and its call asks again.
func (x *explorer) drop(w *world, c int, back string) {
	cl := &w.calls[c]
	cl.state, cl.back, cl.due, cl.from, cl.until = waiting, back, w.now, 0, 0
}

// end ends a call. It may start again as a new call.
func (x *explorer) end(w *world, c int) {
	life := w.calls[c].life + 1
	w.calls[c] = call{life: life, number: x.number(c, life)}
	if life >= x.Lives {
		w.calls[c].state = over
	}
}

// leave sends Redis what calls of a process no longer need at a limit.
func (x *explorer) leave(w *world, p, limit int, left wire.Left) {
	x.verb(w, p, []int{limit}, func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Leave(context.Background(), c, []wire.Left{left})
		return reply, err
	})
}

// verb calls any script except ask.
func (x *explorer) verb(w *world, p int, limits []int, verb func(*wire.Call) (wire.Reply, error)) {
	w.processes[p].serial++
	c := x.call(w, p, limits...)
	var reply wire.Reply
	if x.talk(w, func() (err error) { reply, err = verb(c); return err }) {
		x.learn(w, p, &reply, w.now, limits...)
	}
}

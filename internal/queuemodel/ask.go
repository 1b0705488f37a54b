package queuemodel

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Ask is the script ask.
func (r *Redis) Ask(who Caller, limits []Limit, items []Item) ([]Head, []Answer) {
	c := r.begin(who, limits)
	var answers []Answer
	for _, item := range items {
		for k := range item.Count {
			c.asking[c.Process+":"+strconv.Itoa(item.Number+k)] = true
		}
	}
	for _, item := range items {
		for k := range item.Count {
			answers = append(answers, c.one(item, k))
			if answers[len(answers)-1].Status == 4 && item.Parts[0].Tag == 0 {
				break
			}
		}
	}
	return c.heads(), answers
}

func (c *call) one(item Item, k int) Answer {
	id := c.Process + ":" + strconv.Itoa(item.Number+k)
	parts := slices.Clone(item.Parts)
	limits := make([]*State, len(parts))
	tags := make([]float64, len(parts))
	for i, p := range parts {
		limits[i], tags[i] = c.load(p.Limit), p.Tag
	}
	for i, p := range parts {
		s := limits[i]
		if most := s.mostCost(); p.Cost > most {
			return Answer{Status: 2, Tags: tags}
		}
	}
	for i, p := range parts {
		s := limits[i]
		if c.copied(s, id, p.Cost) {
			return Answer{Status: 2, Tags: tags}
		}
		if s.letGo(id, p.Cost) {
			c.sooner(s)
		}
	}
	for i := range parts {
		if q := limits[i].placed(id, parts[i].Cost); q != nil && !item.Now {
			parts[i].Tag = q.tag
		}
	}
	back, charged := make([]bool, len(parts)), make([]bool, len(parts))
	if item.ID != "" {
		for i := range parts {
			if parts[i].Tag == 0 {
				parts[i].Tag = limits[i].tagOf(item.ID, parts[i].Cost)
				back[i] = parts[i].Tag != 0
				if back[i] && limits[i].virtual == 0 {
					limits[i].supersede(parts[i].Tag, id)
				}
				tags[i] = parts[i].Tag
			}
		}
	}
	queued := slices.ContainsFunc(limits, func(s *State) bool { return len(s.places) > 0 || len(s.bookings) > 0 })
	for i := range parts {
		charged[i] = c.order(limits[i], &parts[i], id, item, back[i], queued)
		tags[i] = parts[i].Tag
	}
	if item.ID == "" || item.Patience >= 0 {
		if due, ok := c.now(item, id, parts, limits); ok {
			return c.turn(item, id, parts, limits, tags, back, due)
		}
	}
	if item.Now {
		which, latest := c.farthest(parts, limits, c.moment(item))
		return Answer{Status: 0, Wait: math.Ceil(latest - c.at), Which: which + 1, Tags: tags}
	}
	return c.wait(item, id, parts, limits, tags, charged, back)
}

// order gives a call the tag that it has at a limit, and reports whether its flow was charged.
func (c *call) order(s *State, p *Part, id string, item Item, back, queued bool) bool {
	if item.Flow != nil && queued {
		tag := p.Tag
		if item.Flow.Urgent > 0 {
			tag = 0
		}
		c.beginShares(s, tag)
	}
	flow := nobody
	if item.Flow != nil {
		flow = *item.Flow
	}
	switch {
	case s.virtual == 0:
	case p.Tag > 0:
		if back {
			p.Tag = s.overtaken(p.Tag, p.Cost, flow)
		}
		p.Tag = c.forward(s, p.Tag, id, p.Cost, flow, back, item.Settles)
	case !item.Now:
		p.Tag = c.fairTag(s, p.Cost, flow, item.Settles)
		return true
	}
	return false
}

// now returns when a call is due, and whether it has its turn now.
func (c *call) now(item Item, id string, parts []Part, limits []*State) (float64, bool) {
	due := c.at
	for n := 0; ; n++ {
		last := due
		for i, p := range parts {
			due = max(due, c.next(limits[i], p.Cost, last), limits[i].paused)
		}
		if due == last {
			break
		}
		if n == 15 {
			due = math.Inf(1)
			break
		}
	}
	ahead := c.Horizon
	c.rows = map[*State]int{}
	if item.Now {
		ahead = 0
	} else {
		called, step := false, 0.0
		for i, s := range limits {
			if s.paces() && s.called == id {
				called, c.rows[s] = true, s.row
			}
			if s.kind == "p" {
				step = max(step, parts[i].Cost*s.a)
			}
		}
		if called && len(parts) == 1 {
			ahead = max(ahead, min(farthest, 1e6-c.Way))
		}
		for i, s := range limits {
			bears := called && s.kind == "p" && due-(s.b-parts[i].Cost)*s.a <= c.at
			if len(parts) > 1 && s.overflows(due, len(s.places) > 0 && s.places[0].id != id) && !bears {
				if spent := s.free + s.part - c.at; called && s.kind == "p" && spent+min(spent, step) > c.Near {
					ahead = min(ahead, spent+min(spent, step))
				} else {
					ahead = c.Near
				}
			}
		}
	}
	if item.Within > 0 {
		ahead = min(ahead, c.within(item))
	}
	if due > c.at+ahead { // no call is passed for a call that has no permits
		return due, false
	}
	room := c.at
	for i, p := range parts {
		room = max(room, c.entitled(limits[i], p))
	}
	return due, room <= c.at+ahead
}

// within returns how long after the reply arrives a call may have its turn: some of the time has passed.
func (c *call) within(item Item) float64 {
	clock := c.limits[item.Parts[0].Limit].Clock
	if passed := c.at - clock; clock > 0 && passed > 0 && passed < 1e6 {
		return item.Within - passed
	}
	return item.Within
}

// moment returns how to tell when a limit has the permits of a call.
func (c *call) moment(item Item) func(*State, Part) float64 {
	if item.ID == "" {
		return c.forecast
	}
	return func(s *State, p Part) float64 { return c.returning(s, p, item.Patience) }
}

// farthest returns the limit that holds a call back most, and when its turn is there. The permits that a limit has now may
// be used up when the others have theirs.
func (c *call) farthest(parts []Part, limits []*State, moment func(*State, Part) float64) (slowest int, latest float64) {
	latest = math.Inf(-1)
	for i, p := range parts {
		if there := moment(limits[i], p); there > latest {
			slowest, latest = i, there
		}
	}
	for i, p := range parts {
		if there := c.next(limits[i], p.Cost, latest); len(parts) > 1 && there > latest {
			slowest, latest = i, there
		}
	}
	return slowest, latest
}

// wait gives a call a place at the limit that holds it back most, or books it there.
func (c *call) wait(item Item, id string, parts []Part, limits []*State, tags []float64, charged, back []bool) Answer {
	for i := range parts {
		if parts[i].Tag == 0 {
			parts[i].Tag = c.newTag(limits[i])
		}
		tags[i] = parts[i].Tag
	}
	slowest, latest := c.farthest(parts, limits, c.moment(item))
	answer := Answer{Status: 0, Wait: math.Ceil(latest - c.at), Which: slowest + 1, Tags: tags}
	late := item.ID != "" && latest-c.at > item.Latest || item.ID == "" && item.Within > 0 && latest-c.at > c.within(item)
	s, isNew := limits[slowest], limits[slowest].isUnknown(item, slowest, id, back)
	switch {
	case late || item.Most > 0 && isNew && float64(len(s.places)+len(s.bookings)) >= item.Most:
		again := !c.cleared[s] && c.clear(s, "")
		c.cleared[s] = true
		if again {
			return c.wait(item, id, parts, limits, tags, charged, back)
		}
		answer.Status = 5
		if late {
			answer.Status = 4
		}
		for i, p := range parts {
			if charged[i] {
				limits[i].refund(c.place(item, id, p))
			}
			if late && item.Within > 0 { // the place is from an ask whose reply was lost
				limits[i].leave(id, p.Cost)
			}
		}
		return answer
	case item.ID != "" && latest-c.at > item.Patience:
		answer.Status = 3
	case item.ID != "": // it waits; its forecast assumes that no booking comes back
		var told float64
		slowest, told = c.farthest(parts, limits, c.forecast)
		answer.Wait, answer.Which = math.Ceil(told-c.at), slowest+1
	}
	if answer.Status == 0 {
		again := item.Parts[slowest].Tag > 0 || limits[slowest].placed(id, parts[slowest].Cost) != nil
		answer.Wait = math.Ceil(c.comesBack(limits[slowest], c.at+answer.Wait, again) - c.at)
	}
	for i, p := range parts {
		s := limits[i]
		if item.ID != "" {
			c.keep(s, booking{item.ID, p.Cost, p.Tag, answer.Status == 3 && i == slowest}, latest)
		}
		s.latest = max(s.latest, math.Ceil(latest))
		if answer.Status == 3 || i != slowest {
			first := len(s.places) > 0 && s.places[0].id == id
			if s.leave(id, p.Cost) && first && c.rows[s] < row {
				c.callHead(s, c.rows[s]+1)
			}
		} else if s.placed(id, p.Cost) == nil {
			s.places = append(s.places, c.place(item, id, p))
			if p.Tag > max(s.seq, c.at) && s.virtual == 0 { // the clock stepped back, and the state was lost
				s.seq = p.Tag + spread
			}
			s.seq = max(s.seq, p.Tag)
			s.sort()
		}
		if s.head == id {
			s.since, s.called = math.Ceil(max(c.at, c.ahead(s, 0, p.Cost))), ""
		}
	}
	return answer
}

func (c *call) place(item Item, id string, p Part) place {
	q := place{p.Tag, p.Cost, id, c.Process, nobody, item.Flow != nil}
	if q.named {
		q.flow = *item.Flow
	}
	return q
}

func (s *State) sort() {
	slices.SortStableFunc(s.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(member(a), member(b)))
	})
}

func (c *call) forecast(s *State, p Part) float64 {
	others := s.before(p.Tag)
	moment := max(c.next(s, p.Cost, c.at), c.ahead(s, others, p.Cost))
	if others == 0 && s.setUntil > c.Now { // it asks when the time of the set limit is over
		moment = min(moment, s.setUntil)
	}
	return max(c.at, s.paused, moment)
}

func member(p place) string {
	name := p.id + ":" + strconv.FormatFloat(p.cost, 'f', 0, 64)
	if p.named {
		weight := p.flow.Weight
		if p.flow.Urgent > 0 {
			weight = 0
		}
		name += ":" + number(weight) + ":" + p.flow.Name
	}
	return name
}

func (s *State) mostCost() float64 {
	switch s.kind {
	case "p":
		return s.b
	case "w":
		return 1e9
	default:
		return s.a
	}
}

// isUnknown reports whether a call brings no tag to a limit, and has neither a booking nor a place there.
func (s *State) isUnknown(item Item, i int, id string, back []bool) bool {
	return item.Parts[i].Tag == 0 && !back[i] && s.placed(id, item.Parts[i].Cost) == nil
}

func (c *call) turn(item Item, id string, parts []Part, limits []*State, tags []float64, back []bool, due float64) Answer {
	usable := math.Inf(1)
	for i, p := range parts {
		s, isNew := limits[i], limits[i].isUnknown(item, i, id, back)
		who := c.Process + " " + strconv.Itoa(c.Serial)
		last, earlier := c.earlier(s, who, due)
		s.leave(id, p.Cost)
		c.served(s, c.reached(s, p.Tag, item.ID != "" && !isNew))
		if item.Settles {
			tags[i] = c.record(s, due)
		}
		c.spend(s, p.Cost, due, id)
		s.last = append([]ask{{who, last.cost + p.Cost, math.Ceil(due)}}, earlier...)
		usable = min(usable, s.usable(p.Cost, due))
		if item.ID != "" {
			p.Tag = c.had(s, item.ID, p, isNew)
			if !item.Settles {
				tags[i] = p.Tag
			}
		}
		if item.Settles && s.kind != "r" && s.kind != "s" {
			s.records[id+":"+number(p.Cost)] = tags[i]
		}
	}
	return Answer{Status: 1, Wait: math.Ceil(due - c.at), Usable: math.Floor(usable - c.at), Tags: tags}
}

// earlier returns the last spending, if the same ask made it in the window of a moment. It also returns earlier
// spendings of a quota, which may come back: the 32 largest for turns that are not due yet, and eight of the last seconds.
func (c *call) earlier(s *State, who string, due float64) (last ask, all []ask) {
	if len(s.last) > 0 && s.last[0].of == who && (s.kind != "q" || s.windowAt(s.last[0].due) == s.windowAt(due)) {
		return s.last[0], s.last[1:]
	}
	for _, a := range s.last {
		if s.kind == "q" && a.due > c.Now-renew {
			all = append(all, a)
		}
	}
	most := map[bool]int{true: 8, false: 32}
	for k := range all {
		most[all[k].due <= c.at]--
	}
	for _, isDue := range []bool{true, false} {
		for ; most[isDue] < 0; most[isDue]++ {
			least := -1
			for k, a := range all {
				if (a.due <= c.at) == isDue && (least < 0 || a.cost <= all[least].cost) {
					least = k
				}
			}
			all = slices.Delete(all, least, least+1)
		}
	}
	return ask{}, all
}

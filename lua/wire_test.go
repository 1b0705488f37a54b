package lua

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// server makes script calls in the terms of the model.
type server struct {
	client redis.Scripter
	ctx    context.Context
	ask    *redis.Script
	other  map[string]*redis.Script // by verb, where a bug is planted
	keys   []string                 // of all limits
	runs   int                      // of the common path, in the last reply
}

func text(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }

func whole(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) }

func joined(numbers []float64, first string) string {
	var words []string
	for i, x := range numbers {
		if i == 0 {
			words = append(words, first)
		} else {
			words = append(words, text(x))
		}
	}
	return strings.Join(words, " ")
}

func headArgs(who queuemodel.Caller, limits []queuemodel.Limit) []any {
	args := []any{whole(who.Now), whole(who.Way), whole(who.Horizon), whole(who.Near), whole(who.Grace),
		who.Run, who.Process, who.Serial, ""}
	for _, l := range limits {
		reach := ""
		if len(l.Reach) > 0 {
			reach = joined(l.Reach, whole(l.Reach[0]))
		}
		if (l.Kind == "r" || l.Kind == "s") && len(l.Reach) > 1 {
			reach = whole(l.Reach[0]) + " " + whole(l.Reach[1])
		}
		if l.Kind == "q" && len(l.Reach) > 3 {
			reach = whole(l.Reach[0]) + " " + whole(l.Reach[1]) + " " + whole(l.Reach[2]) + " " + whole(l.Reach[3])
		}
		var edges []string
		for _, e := range l.Edges {
			edges = append(edges, whole(e))
		}
		if l.Late > 0 {
			edges = []string{whole(l.Late)}
		}
		rank := whole(l.Rank)
		if l.Plan {
			rank = "+" + rank
		}
		args = append(args, cmp.Or(l.Form, l.Kind), text(l.A), text(l.B), rank, l.Known, whole(l.Version), reach, l.Back, strings.Join(edges, " "), whole(l.Clock))
	}
	return args
}

// reply is what a script replied, read from the front.
type reply struct {
	values []any
	err    error
}

func (r *reply) word() string {
	if len(r.values) == 0 {
		r.err = fmt.Errorf("the reply is too short")
		return ""
	}
	v := fmt.Sprint(r.values[0])
	r.values = r.values[1:]
	return v
}

func (r *reply) number() float64 {
	w := r.word()
	if w == "" {
		return 0
	}
	x, err := strconv.ParseFloat(w, 64)
	if err != nil {
		r.err = fmt.Errorf("want a number, got %q", w)
	}
	return x
}

func (r *reply) heads(limits int, now float64) []queuemodel.Head {
	if at := r.number(); at != now {
		r.err = fmt.Errorf("another time: %v", at)
	}
	heads := make([]queuemodel.Head, limits)
	for j := range heads {
		version, reach, known, problem := r.word(), r.word(), r.word(), r.word()
		if version == "" {
			continue
		}
		heads[j].Version, _ = strconv.ParseFloat(version, 64)
		heads[j].Text, heads[j].Refused = known, problem != ""
		if problem != "" {
			r.err = fmt.Errorf("limit %d: %s", j, problem)
		}
		for _, w := range strings.Fields(reach) {
			x, err := strconv.ParseFloat(w, 64)
			if err != nil {
				r.err = err
			}
			heads[j].Reach = append(heads[j].Reach, x)
		}
		if text := strings.Fields(strings.TrimPrefix(known, "~")); len(text) > 2 && text[2] == "s" && len(heads[j].Reach) > 2 {
			heads[j].Reach = heads[j].Reach[:2] // the third one is of news
		}
	}
	return heads
}

func (s *server) run(verb string, script *redis.Script, limits []queuemodel.Limit, args []any) *reply {
	if planted := s.other[verb]; planted != nil {
		script = planted
	}
	run := script.Run
	if verb == "inspect" { // Redis refuses what a read-only script writes
		run = script.RunRO
	}
	v, err := run(s.ctx, s.client, s.keys[:6*len(limits)], args...).Result()
	if err != nil {
		return &reply{err: err}
	}
	return &reply{values: v.([]any)}
}

// take asks with script take where that is possible, and reports whether it gave turns. Every second ask does so.
func (s *server) take(who queuemodel.Caller, limits []queuemodel.Limit, items []queuemodel.Item) ([]queuemodel.Head, []queuemodel.Answer, bool, error) {
	if len(limits) != 1 || len(items) != 1 || who.Serial%2 == 0 {
		return nil, nil, false, nil
	}
	l, item, run := limits[0], items[0], who.Run
	if run == "" {
		run = "-"
	}
	if l.Kind != "p" || !strings.HasSuffix(l.Known, " "+run+" p "+text(l.A)+" "+text(l.B)) || l.Back != "" || len(item.Parts) != 1 ||
		item.Settles || item.ID != "" || item.Parts[0].Tag != 0 || item.Parts[0].Cost > l.B {
		return nil, nil, false, nil
	}
	within := ""
	switch {
	case item.Now:
		within = "0"
	case item.Within > 0:
		within = text(item.Within)
	}
	script := Take
	if planted := s.other["take"]; planted != nil {
		script = planted
	}
	v, err := script.Run(s.ctx, s.client, s.keys[:1], whole(who.Now), whole(who.Way), whole(who.Horizon), who.Process, who.Serial,
		1, text(l.A), text(l.B), item.Count, whole(item.Parts[0].Cost), l.Known, whole(l.Version), whole(l.Clock), within).Result()
	if err != nil {
		return nil, nil, false, err
	}
	r := &reply{values: v.([]any)}
	if at := r.number(); at != who.Now {
		return nil, nil, false, fmt.Errorf("another time: %v", at)
	}
	version, last := r.number(), r.number()
	if version < 0 {
		return nil, nil, false, r.err
	}
	s.runs = 1
	return []queuemodel.Head{{Version: version, Reach: []float64{last}}}, turnsOf(item, l, last), true, r.err
}

// turnsOf are the answers to an item whose calls all have turns: the caller works them out.
func turnsOf(item queuemodel.Item, l queuemodel.Limit, last float64) (answers []queuemodel.Answer) {
	cost := item.Parts[0].Cost
	for k := 1; k <= item.Count; k++ {
		due := last - float64(item.Count-k)*cost*l.A
		answers = append(answers, queuemodel.Answer{
			Status: 1, Wait: max(0, math.Ceil(due)), Usable: math.Floor(due + (l.B-cost)*l.A), Tags: make([]float64, 1),
		})
	}
	return answers
}

func (s *server) Ask(who queuemodel.Caller, limits []queuemodel.Limit, items []queuemodel.Item) ([]queuemodel.Head, []queuemodel.Answer, error) {
	if heads, answers, given, err := s.take(who, limits, items); given || err != nil {
		return heads, answers, err
	}
	args := headArgs(who, limits)
	for _, item := range items {
		how := 0
		if item.Settles {
			how++
		}
		if item.Now {
			how += 2
		}
		args = append(args, item.Count, item.Number)
		var flow []any
		if f := item.Flow; f != nil {
			how += 16
			flow = []any{text(f.Weight), text(f.Urgent), f.Name}
		}
		if item.Within > 0 {
			how += 32
			flow = append([]any{text(item.Within)}, flow...)
		}
		if item.Most > 0 {
			how += 64
		}
		if item.ID != "" {
			args = append(append(args, how+4), flow...)
			args = append(args, item.ID, text(item.Patience), text(item.Latest), len(item.Parts))
		} else {
			args = append(append(append(args, how), flow...), len(item.Parts))
		}
		for _, p := range item.Parts {
			tag := ""
			if p.Tag != 0 {
				tag = whole(p.Tag)
			}
			args = append(args, p.Limit+1, whole(p.Cost), tag)
		}
		for range item.Parts {
			if item.Most > 0 {
				args = append(args, whole(item.Most))
			}
		}
	}
	r := s.run("ask", s.ask, limits, args)
	if r.err != nil {
		return nil, nil, r.err
	}
	heads := r.heads(len(limits), who.Now)
	s.runs = 0
	var answers []queuemodel.Answer
	for _, item := range items {
		if r.number() == 1 {
			last := r.number()
			s.runs++
			answers = append(answers, turnsOf(item, limits[item.Parts[0].Limit], last)...)
			continue
		}
		for range int(r.number()) {
			a := queuemodel.Answer{Status: int(r.number()), Wait: r.number()}
			switch third := r.word(); a.Status {
			case 1:
				a.Usable, _ = strconv.ParseFloat(third, 64)
			case 0, 3, 4, 5:
				a.Which, _ = strconv.Atoi(third)
			}
			for range item.Parts {
				a.Tags = append(a.Tags, r.number())
			}
			answers = append(answers, a)
		}
	}
	return heads, answers, r.err
}

func (s *server) Leave(who queuemodel.Caller, limits []queuemodel.Limit, limit int, what, which string, cost float64, flow *queuemodel.Flow) ([]queuemodel.Head, float64, error) {
	size := whole(cost)
	if what == "done" || what == "keep" || what == "free" || what == "lease" {
		size += ":" + flow.Name
	} else if flow != nil {
		size += ":" + flowText(flow)
	}
	r := s.run("leave", Leave, limits, append(headArgs(who, limits), limit+1, what, which, size))
	if r.err != nil {
		return nil, 0, r.err
	}
	return r.heads(len(limits), who.Now), r.number(), r.err
}

func (s *server) Settle(who queuemodel.Caller, limits []queuemodel.Limit, limit int, is queuemodel.Report) ([]queuemodel.Head, float64, bool, error) {
	flow := ""
	if is.Flow != nil {
		flow = flowText(is.Flow)
	}
	used := whole(is.Used)
	if is.Again {
		used = "+" + used
	}
	r := s.run("settle", Settle, limits, append(headArgs(who, limits), limit+1, is.ID, whole(is.Cost), used, flow))
	if r.err != nil {
		return nil, 0, false, r.err
	}
	heads, changed := r.heads(len(limits), who.Now), r.word()
	if changed == "" {
		return heads, 0, false, r.err
	}
	permits, err := strconv.ParseFloat(changed, 64)
	return heads, permits, true, errors.Join(r.err, err)
}

// flowText is "<weight>:<flow>". Urgent calls have no weight.
func flowText(f *queuemodel.Flow) string {
	weight := f.Weight
	if f.Urgent > 0 {
		weight = 0
	}
	return text(weight) + ":" + f.Name
}

func (s *server) Pause(who queuemodel.Caller, limits []queuemodel.Limit, micros, every float64) ([]queuemodel.Head, float64, error) {
	args := append(headArgs(who, limits), whole(micros), "told so")
	if every > 0 {
		args = append(args, "1", whole(every))
	}
	r := s.run("pause", Pause, limits, args)
	if r.err != nil {
		return nil, 0, r.err
	}
	return r.heads(len(limits), who.Now), r.number(), r.err
}

func (s *server) Probe(who queuemodel.Caller, limits []queuemodel.Limit, every float64) ([]queuemodel.Head, float64, error) {
	r := s.run("pause", Pause, limits, append(headArgs(who, limits), "0", "", "", whole(every)))
	if r.err != nil {
		return nil, 0, r.err
	}
	return r.heads(len(limits), who.Now), r.number(), r.err
}

func (s *server) Resume(who queuemodel.Caller, limits []queuemodel.Limit, stop ...float64) ([]queuemodel.Head, error) {
	args := headArgs(who, limits)
	for _, moment := range stop {
		args = append(args, whole(moment))
	}
	r := s.run("resume", Resume, limits, args)
	if r.err != nil {
		return nil, r.err
	}
	return r.heads(len(limits), who.Now), r.err
}

func (s *server) Level(who queuemodel.Caller, limits []queuemodel.Limit, permits string, raises int) ([]queuemodel.Head, float64, error) {
	r := s.run("level", Level, limits, append(headArgs(who, limits), permits, raises))
	if r.err != nil {
		return nil, 0, r.err
	}
	return r.heads(len(limits), who.Now), r.number(), r.err
}

func (s *server) Set(who queuemodel.Caller, limits []queuemodel.Limit, a, b, micros float64) ([]queuemodel.Head, error) {
	args := append(headArgs(who, limits), text(a), text(b), whole(micros))
	if a == 0 {
		args = append(headArgs(who, limits), "", "", "0")
	}
	r := s.run("set", Set, limits, args)
	if r.err != nil {
		return nil, r.err
	}
	return r.heads(len(limits), who.Now), r.err
}

func serverOf(ctx context.Context, client redis.Scripter, keys []string) *server {
	return &server{client: client, ctx: ctx, ask: Ask, keys: keys}
}

package monitor

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// rows is of how many keys of a limit the page shows the states.
const rows = 20

// mostEvents is how many changes by people it shows.
const mostEvents = 10

// limitView is what the page of a limit shows.
type limitView struct {
	page
	*fleet.Look
	Line   fleet.Line
	Answer *fleet.Answer
	Key    string     // the key that the page is about
	Row    *fleet.Row // its state; nil: no process has used the limit for ten minutes
	Charts *charts
	Range  *timeRange    // of the Charts
	Events []fleet.Event // what people have changed, the last one first
	Live   []fleet.Process
	Gone   []fleet.Process // they are idle, or were closed
	Change *changeView     // nil: the page is for reading only, or this is a look

	chosen bool // the viewer has chosen the key
}

// Query is the part of the address that says which limit and key it is.
func (v *limitView) Query() string {
	q := url.Values{"name": {v.Line.ID()}}
	if v.chosen {
		q.Set("key", v.Key)
	}
	if v.Range != nil && v.Range != rangeOf("") {
		q.Set("range", v.Range.Name)
	}
	return q.Encode()
}

// choice is a range that one can choose.
type choice struct{ Name, Address string }

// Ranges are the ranges that a viewer may choose.
func (v *limitView) Ranges() (all []choice) {
	for i := range ranges {
		of := *v
		of.Range = &ranges[i]
		all = append(all, choice{ranges[i].Name, "limit?" + of.Query()})
	}
	return all
}

// limit shows a limit, and what a change of it would do.
func (p *Page) limit(w http.ResponseWriter, r *http.Request) {
	view, err := p.limitView(r.Context(), p.feed.first(r.Context()), r)
	if err != nil {
		p.fail(w, err)
		return
	}
	if !p.config.ReadOnly {
		view.Change = p.changeView(r.Context(), view, r)
	}
	p.show(w, "limit.html", view)
}

func (p *Page) limitView(ctx context.Context, s *snapshot, r *http.Request) (*limitView, error) {
	id, key := r.FormValue("name"), r.FormValue("key")
	n, err := p.fleet.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	look, err := p.fleet.Look(ctx, n, rows)
	if err != nil {
		return nil, err
	}
	answer, err := p.fleet.Explain(ctx, n, key)
	if err != nil {
		return nil, err
	}
	if !r.Form.Has("key") { // "key=" means the calls without a key
		key = answer.Key
	}
	v := &limitView{page: p.pageOf(s, r), Look: look, Line: look.Line(nil), Answer: answer, Key: key, chosen: r.Form.Has("key")}
	if v.Row, err = p.rowOf(ctx, n, look, key); err != nil {
		return nil, err
	}
	if v.Events, err = p.fleet.Happened(ctx, n, mostEvents); err != nil {
		return nil, err
	}
	line := s.line(id)
	v.Line.PerSecond, v.Line.Busiest = line.PerSecond, line.Busiest
	v.Range = rangeOf(r.FormValue("range"))
	v.Charts = newCharts(v.Range.of(s, id), line.Busiest.Unit, v.Range, s.At)
	for _, process := range look.Processes {
		if process.Alive || !process.Report.Ended {
			v.Live = append(v.Live, process)
		} else {
			v.Gone = append(v.Gone, process)
		}
	}
	slices.SortStableFunc(v.Live, func(a, b fleet.Process) int { return cmp.Compare(rank(&a), rank(&b)) })
	return v, nil
}

// rank puts processes whose calls fail first, then dead ones.
func rank(p *fleet.Process) int {
	switch {
	case p.Alive && !p.Fails.IsZero():
		return 0
	case !p.Alive:
		return 1
	}
	return 2
}

// rowOf returns the state of a key.
func (p *Page) rowOf(ctx context.Context, n fleet.Name, look *fleet.Look, key string) (*fleet.Row, error) {
	if i := slices.IndexFunc(look.Rows, func(row fleet.Row) bool { return row.Key == key }); i >= 0 {
		return &look.Rows[i], nil
	}
	of, err := p.fleet.Look(ctx, n, 1, key)
	if err != nil || len(of.Rows) == 0 {
		return nil, err
	}
	return &of.Rows[0], of.Rows[0].Err
}

// changeView is the form with which people change a limit.
type changeView struct {
	Do      string // the change that is chosen
	Verbs   []verb
	Form    url.Values
	Plan    *fleet.Change // what will happen; nil: not worked out yet, or Wrong
	Wrong   string
	Misses  string
	InForce string // the limit at the time of the Plan
}

// Risky reports whether the change lets less through, or more than the limit allows.
func (c *changeView) Risky() bool {
	return c.Do == "pause" || c.Do == "stop" || c.Do == "set" || c.Do == "release"
}

// Title is what the button says that makes the change.
func (c *changeView) Title() string { return titles[c.Do] + " it" }

// verb is a change that one can choose.
type verb struct{ Do, Name, Address string }

// changeView works out what the change would do that the address asks for.
func (p *Page) changeView(ctx context.Context, v *limitView, r *http.Request) *changeView {
	if v.Row == nil {
		return nil
	}
	n := v.Look.Name
	c := &changeView{Do: r.FormValue("do"), Form: url.Values{}, InForce: v.Row.Limit}
	if actions[c.Do] == nil {
		if c.Do = "pause"; v.Row.Paused {
			c.Do = "resume"
		}
	}
	for _, do := range []string{"pause", "resume", "set", "reset", "refill", "stop"} {
		if do == "resume" && !v.Row.Paused || do == "pause" && v.Row.Paused || do == "stop" && v.Row.State.Stopped || do == "reset" && !v.Row.Set || do == "refill" && v.Line.Slots > 0 {
			continue
		}
		at := url.Values{"name": {n.String()}, "do": {do}}
		if v.Key != "" {
			at.Set("key", v.Key)
		}
		c.Verbs = append(c.Verbs, verb{do, titles[do], "limit?" + at.Encode() + "#change"})
	}
	for _, field := range []string{"for", "reason", "to", "slot"} {
		c.Form.Set(field, r.FormValue(field))
	}
	if c.Do == "pause" && !r.Form.Has("for") {
		c.Form.Set("for", "10m")
	}
	if r.FormValue("step") == "" && (c.Do == "pause" || c.Do == "set" || c.Do == "stop") {
		return c
	}
	t, err := p.fleet.Target(ctx, n, v.Key, "")
	if err == nil {
		c.Plan, err = actions[c.Do](&asked{Target: t, form: c.Form, who: v.Who, fleet: p.fleet})
	}
	switch {
	case errors.Is(err, fleet.ErrNoSlot) && r.Method == http.MethodGet && c.Do == "release":
		c.Wrong = "This slot is free: the call has released it meanwhile."
	case err != nil:
		c.Wrong = err.Error()
	default:
		c.Misses = p.fleet.Misses(ctx, t)
	}
	return c
}

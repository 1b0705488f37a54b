package monitor

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// query is what a viewer of the list asks for, in the address of the page.
type query struct{ Show, Sort, Find string }

func queryOf(r *http.Request) query {
	q := query{Show: r.FormValue("show"), Sort: r.FormValue("sort"), Find: r.FormValue("find")}
	if orders[q.Sort] == nil {
		q.Sort = "state"
	}
	return q
}

// With is the address with one part of the query changed.
func (q query) With(part, value string) string {
	switch part {
	case "show":
		q.Show = value
	case "sort":
		q.Sort = value
	}
	v := url.Values{}
	for name, value := range map[string]string{"show": q.Show, "sort": q.Sort, "find": q.Find} {
		if value != "" && (name != "sort" || value != "state") {
			v.Set(name, value)
		}
	}
	return "?" + v.Encode()
}

// order is a column by which the list may be sorted.
type order struct {
	Sort, Name, Column string
	Number             bool
}

// Orders are those of the columns.
func (query) Orders() []order {
	return []order{
		{"name", "name", "Limit", false}, {"state", "worst first", "What holds it back", false}, {"use", "use", "Use", true},
		{"waiting", "waiting", "Waiting", true}, {"oldest", "longest", "Longest wait", true}, {"booked", "booked", "Booked", true},
	}
}

// orders are those in which the list may be. Ties are in the order of the names.
var orders = map[string]func(a, b *fleet.Line) int{
	"name":    func(_, _ *fleet.Line) int { return 0 },
	"state":   worse,
	"use":     func(a, b *fleet.Line) int { return cmp.Compare(b.Busiest.Share(), a.Busiest.Share()) },
	"waiting": func(a, b *fleet.Line) int { return cmp.Compare(b.Waiting, a.Waiting) },
	"oldest":  func(a, b *fleet.Line) int { return cmp.Compare(b.Oldest, a.Oldest) },
	"booked":  func(a, b *fleet.Line) int { return cmp.Compare(b.Booked, a.Booked) },
}

// worse puts the worst first, and of equally bad limits the one with the most calls that wait.
func worse(a, b *fleet.Line) int {
	rank := func(l *fleet.Line) int { return slices.Index(fleet.Severities, l.Why.Severity) }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Why.Held, a.Why.Held))
}

// chip is a part of the list that a viewer may choose.
type chip struct {
	Show, Name string
	Count      int
}

// wrong is a limit at which something is wrong.
type wrong struct {
	*fleet.Line
	Button, Address string
}

// mostWrong is how many of them are shown at first.
const mostWrong = 6

// listView is what the list of limits shows.
type listView struct {
	page
	query

	Wrong   []wrong
	Further []wrong // further ones, which are folded
	Says    string
	Mark    fleet.Severity // of Says, if nothing is wrong
	Chips   []chip
	Rows    []row
}

// row is a limit in the list.
type row struct {
	ID    string
	Cells []template.HTML
}

// columns are the templates of the cells, in order.
var columns = []string{"c-name", "c-why", "c-spark", "c-use", "c-waiting", "c-oldest", "c-booked"}

// list shows all limits.
func (p *Page) list(w http.ResponseWriter, r *http.Request) {
	view, err := p.listView(p.feed.first(r.Context()), r)
	if err != nil {
		p.fail(w, err)
		return
	}
	p.show(w, "page.html", view)
}

func (p *Page) listView(s *snapshot, r *http.Request) (*listView, error) {
	v := &listView{page: p.pageOf(s, r), query: queryOf(r)}
	lines := make([]*fleet.Line, len(s.Lines))
	counts := map[fleet.Severity]int{}
	for i := range s.Lines {
		lines[i] = &s.Lines[i]
		counts[lines[i].Why.Severity]++
	}
	slices.SortFunc(lines, func(a, b *fleet.Line) int { return cmp.Or(worse(a, b), cmp.Compare(a.ID(), b.ID())) })
	for _, l := range lines {
		if of := l.Why.Severity; of == fleet.SeverityStop || of == fleet.SeveritySlow {
			v.Wrong = append(v.Wrong, p.wrongOf(l))
		}
	}
	v.Wrong, v.Further = v.Wrong[:min(len(v.Wrong), mostWrong)], v.Wrong[min(len(v.Wrong), mostWrong):]
	v.Says, v.Mark = says(counts, len(lines)), fleet.SeverityFine
	if len(lines) == 0 {
		v.Mark, v.Says = fleet.SeverityIdle, "Nothing to see: "+p.fleet.None()
	}
	names := map[fleet.Severity]string{
		fleet.SeverityStop: "Stand still", fleet.SeveritySlow: "Slower", fleet.SeverityLook: "Queue", fleet.SeverityFine: "Fine", fleet.SeverityIdle: "Idle",
	}
	v.Chips = []chip{{"", "All", len(lines)}}
	for _, of := range fleet.Severities {
		v.Chips = append(v.Chips, chip{string(of), names[of], counts[of]})
	}
	slices.SortStableFunc(lines, func(a, b *fleet.Line) int { return cmp.Or(orders[v.Sort](a, b), cmp.Compare(a.ID(), b.ID())) })
	for _, l := range lines {
		if v.Show != "" && v.Show != string(l.Why.Severity) || !strings.Contains(strings.ToLower(l.ID()+" "+l.Limit+" "+l.Why.Key), strings.ToLower(v.Find)) {
			continue
		}
		row := row{ID: l.ID()}
		for _, column := range columns {
			cell, err := p.part(column, lineView{l, spark(s.past[l.ID()], l.Busiest.Unit, s.At)})
			if err != nil {
				return nil, err
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Rows = append(v.Rows, row)
	}
	return v, nil
}

// lineView is what a row shows.
type lineView struct {
	*fleet.Line
	Spark template.HTML
}

// says sums up what is wrong.
func says(counts map[fleet.Severity]int, all int) string {
	var parts []string
	for _, of := range []struct {
		fleet.Severity
		one, many string
	}{{fleet.SeverityStop, "limit stands still", "limits stand still"}, {fleet.SeveritySlow, "is slower than it should be", "are slower than they should be"}} {
		switch n := counts[of.Severity]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+of.one)
		default:
			parts = append(parts, fmt.Sprint(n, " ", of.many))
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	idle := counts[fleet.SeverityIdle]
	return fmt.Sprintf("Nothing is wrong: %d in use, %d idle", all-idle, idle)
}

// wrongOf says which button mends what is wrong.
func (p *Page) wrongOf(l *fleet.Line) wrong {
	do, button := "", "Look…"
	switch a := &l.Why; {
	case p.config.ReadOnly:
	case a.Reason == fleet.WhyStopped, a.Reason == fleet.WhyPaused:
		do, button = "resume", "Resume…"
	case a.Reason == fleet.WhySet:
		do, button = "reset", "Reset…"
	case a.Reason == fleet.WhyUsedUp:
		do, button = "set", "Set a limit…"
	}
	v := url.Values{"name": {l.ID()}}
	if l.Why.Key != "" {
		v.Set("key", l.Why.Key)
	}
	anchor := ""
	switch {
	case do != "":
		v.Set("do", do)
		anchor = "#change"
	case l.Why.Reason == fleet.WhySlots:
		button, anchor = "Slots…", "#slots"
	}
	return wrong{l, button, "limit?" + v.Encode() + anchor}
}

// part executes a template.
func (p *Page) part(name string, view any) (template.HTML, error) {
	var b bytes.Buffer
	err := p.pages.ExecuteTemplate(&b, name, view)
	return template.HTML(b.String()), err //nolint:gosec // made by a template
}

// page is what all pages show.
type page struct {
	At       time.Time
	Known    time.Time
	Away     bool
	Took     time.Duration
	Error    string
	Who      string
	ReadOnly bool
}

func (p *Page) pageOf(s *snapshot, r *http.Request) page {
	return page{At: s.At, Known: s.Known, Away: s.Away, Took: s.Took, Error: s.Error, Who: p.config.Who(r), ReadOnly: p.config.ReadOnly}
}

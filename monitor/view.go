package monitor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"span":    fleet.Span,
	"length":  func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() },
	"number":  fleet.Number,
	"counted": counted,
	"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
	"bar":     func(share float64) string { return fmt.Sprintf("%.1f", 100*share) },
	"utc":     func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
	"moment":  func(t time.Time) string { return t.UTC().Format("2 Jan 15:04") },
	"until":   func(l *fleet.Line) int64 { return time.Now().Add(time.Duration(l.PausedFor * 1e9)).UnixMilli() },
	"named": func(key string) string {
		if key == "" {
			return "(no key)"
		}
		return key
	},
	"most":  func() int { return 50 }, // how many keys a process reports
	"slot":  fleet.SlotID,
	"doing": fleet.Doing,
	"since": func(t time.Time) string { return fleet.Span(time.Since(t).Seconds()) },
	"up":    func(p fleet.Process) string { return p.Up(time.Now()) },
}

// counted formats how many calls there are, for people: with commas.
func counted(n int64) string {
	digits := fmt.Sprint(n)
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// show writes a page; one that cannot be made is an error, and not half a page.
func (p *Page) show(w http.ResponseWriter, name string, view any) {
	var page bytes.Buffer
	if err := p.pages.ExecuteTemplate(&page, name, view); err != nil {
		p.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w)
}

// fail tells what went wrong.
func (p *Page) fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, fleet.ErrUnknown) {
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

// The parts of the pages that a look replaces: templates, and the IDs of the elements that hold them.
var (
	partsOfList  = []string{"facts", "wrong", "chips"}
	partsOfLimit = []string{"facts", "title", "why", "tiles", "chart", "events", "flows", "keys", "slots", "processes"}
)

// event is what a look tells a viewer: what has changed since the last one.
type event struct {
	At    int64                      `json:"at"` // Unix time in milliseconds
	Error string                     `json:"error,omitempty"`
	Parts map[string]template.HTML   `json:"parts,omitempty"`
	Rows  map[string][]template.HTML `json:"rows,omitempty"` // by ID; an empty cell has not changed
	Order []string                   `json:"order,omitempty"`
}

// events sends what changes: of all limits or, with a name, of one. Each event is a look.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy is not to hold it back
	control := http.NewResponseController(w)
	known := map[string]template.HTML{} // what the viewer has been told
	for {
		last := p.feed.first(r.Context())
		_, news := p.feed.want()
		text, _ := json.Marshal(p.look(last, known, r)) // never fails
		_ = control.SetWriteDeadline(time.Now().Add(patient))
		if _, err := fmt.Fprintf(w, "event: look\ndata: %s\n\n", text); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		case <-p.feed.life.Done():
			return
		}
	}
}

// look is what an event tells.
func (p *Page) look(s *snapshot, known map[string]template.HTML, r *http.Request) *event {
	e := &event{At: s.At.UnixMilli(), Error: s.Error, Parts: map[string]template.HTML{}}
	var view any
	var err error
	names := partsOfList
	if r.FormValue("name") != "" {
		names = partsOfLimit
		view, err = p.limitView(r.Context(), s, r)
	} else {
		var list *listView
		if list, err = p.listView(s, r); err == nil {
			e.rows(list.Rows, known)
		}
		view = list
	}
	for _, name := range names {
		if err != nil {
			break
		}
		var text template.HTML
		if text, err = p.part(name, view); err == nil && known[name] != text {
			known[name], e.Parts[name] = text, text
		}
	}
	if err != nil {
		p.fails(e, err, s, known, r)
	}
	return e
}

// fails tells why there is no look. The figures of a limit are then marked as old. A limit that is gone is no failure:
// its figures go, too.
func (p *Page) fails(e *event, err error, s *snapshot, known map[string]template.HTML, r *http.Request) {
	now := &limitView{page: p.pageOf(s, r), Answer: &fleet.Answer{Severity: fleet.SeverityStop, Evidence: []string{err.Error()}}}
	names, a := []string{"facts"}, now.Answer
	if r.FormValue("name") != "" {
		names, now.Line = append(names, "title", "why"), *s.line(r.FormValue("name"))
	}
	switch now.Away = fleet.IsAway(err); {
	case errors.Is(err, fleet.ErrUnknown):
		a.Severity, a.Title, a.Text = fleet.SeverityIdle, "Gone", "It is gone: no process has used it lately. It is here again when a process uses it."
		for _, name := range []string{"tiles", "chart", "events", "flows", "keys", "slots", "processes"} {
			known[name], e.Parts[name] = "", ""
		}
	case now.Away:
		a.Title, a.Text = "Redis does not answer this page", "If it is the Redis of the fleet, each process follows its outage policy."
		fallthrough
	default:
		a.Title, a.Text = cmp.Or(a.Title, "This page cannot read the state"), cmp.Or(a.Text, err.Error())
		if !s.Known.IsZero() {
			a.More = "All below is as of " + s.Known.UTC().Format("15:04:05 UTC") + "."
		}
		now.Error, e.Error = err.Error(), err.Error()
	}
	for _, name := range names {
		if text, err := p.part(name, now); err == nil && known[name] != text {
			known[name], e.Parts[name] = text, text
		}
	}
}

// rows adds the cells that have changed.
func (e *event) rows(all []row, known map[string]template.HTML) {
	e.Rows, e.Order = map[string][]template.HTML{}, []string{}
	for _, row := range all {
		e.Order = append(e.Order, row.ID)
		changed := false
		cells := make([]template.HTML, len(row.Cells))
		for i, cell := range row.Cells {
			if at := fmt.Sprint("row ", i, " ", row.ID); known[at] != cell {
				known[at], cells[i], changed = cell, cell, true
			}
		}
		if changed {
			e.Rows[row.ID] = cells
		}
	}
}

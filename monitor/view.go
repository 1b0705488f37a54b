package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"span":   fleet.Span,
	"number": fleet.Number,
	"named": func(key string) string {
		if key == "" {
			return "(no key)"
		}
		return key
	},
	"slot":  fleet.SlotID,
	"since": func(t time.Time) string { return fleet.Span(time.Since(t).Seconds()) },
}

// listView is what the list of limits shows.
type listView struct {
	*snapshot
	ReadOnly bool
}

// list shows all limits.
func (p *Page) list(w http.ResponseWriter, r *http.Request) {
	p.show(w, "page.html", listView{p.feed.first(r.Context()), p.config.ReadOnly})
}

// limitView is what the page of a limit shows.
type limitView struct {
	*fleet.Look
	Line     fleet.Line
	Answer   *fleet.Answer
	ReadOnly bool
	At       int64
}

// rows is of how many keys of a limit the page shows the states.
const rows = 20

// limit shows one of them.
func (p *Page) limit(w http.ResponseWriter, r *http.Request) {
	view, err := p.view(r.Context(), r.FormValue("name"))
	if err != nil {
		p.fail(w, err)
		return
	}
	p.show(w, "limit.html", view)
}

func (p *Page) view(ctx context.Context, id string) (*limitView, error) {
	n, err := p.fleet.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	look, err := p.fleet.Look(ctx, n, rows)
	if err != nil {
		return nil, err
	}
	answer, err := p.fleet.Explain(ctx, n, "")
	if err != nil {
		return nil, err
	}
	return &limitView{Look: look, Line: look.Line(nil), Answer: answer, ReadOnly: p.config.ReadOnly, At: time.Now().UnixMilli()}, nil
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

// events sends what changes: of all limits or, with a name, of one. Each event is a look.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("name")
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy is not to hold it back
	control := http.NewResponseController(w)
	send := func(event string, data []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patient))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		return err == nil && control.Flush() == nil
	}
	last := p.feed.first(r.Context())
	if !send("past", p.feed.before(id)) {
		return
	}
	for {
		if !send("look", p.look(r.Context(), id, last)) {
			return
		}
		_, news := p.feed.want()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		case <-p.feed.life.Done():
			return
		}
		last = p.feed.first(r.Context()) // the feed may have ended since: the process stood still
	}
}

// look is what an event tells.
func (p *Page) look(ctx context.Context, id string, last *snapshot) []byte {
	if id == "" {
		return last.text
	}
	view, err := p.view(ctx, id)
	if err != nil {
		text, _ := json.Marshal(map[string]any{"at": time.Now().UnixMilli(), "error": err.Error()})
		return text
	}
	for i := range last.Lines {
		if last.Lines[i].ID() == id {
			view.Line.PerSecond = last.Lines[i].PerSecond
		}
	}
	var parts bytes.Buffer
	failed := ""
	if err := p.pages.ExecuteTemplate(&parts, "parts", view); err != nil {
		failed = err.Error()
	}
	text, _ := json.Marshal(map[string]any{"at": view.At, "line": view.Line, "why": view.Answer.Text, "parts": parts.String(), "error": failed})
	return text
}

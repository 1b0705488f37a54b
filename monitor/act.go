package monitor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// asked is a change that a user of the page asks for.
type asked struct {
	*fleet.Target
	form  url.Values
	who   string
	fleet *fleet.Reader
}

// actions work out the changes of a limit, by the names of their forms.
var actions = map[string]func(*asked) (*fleet.Change, error){
	"pause": func(a *asked) (*fleet.Change, error) {
		length, err := a.length()
		if err != nil {
			return nil, err
		}
		return a.Pause(length, a.form.Get("reason"), a.who)
	},
	"stop": func(a *asked) (*fleet.Change, error) {
		length, err := a.anyLength()
		if err != nil {
			return nil, err
		}
		return a.Stop(length, a.form.Get("reason"), a.who)
	},
	"resume": func(a *asked) (*fleet.Change, error) { return a.Resume(), nil },
	"set": func(a *asked) (*fleet.Change, error) {
		length, err := a.anyLength()
		if err != nil {
			return nil, err
		}
		return a.fleet.Set(a.Target, a.form.Get("to"), length, time.Time{}, a.who)
	},
	"reset":  func(a *asked) (*fleet.Change, error) { return a.Reset(), nil },
	"refill": func(a *asked) (*fleet.Change, error) { return a.Refill() },
	"release": func(a *asked) (*fleet.Change, error) {
		if a.Row.Err != nil {
			return nil, a.Row.Err
		}
		return a.Release(a.form.Get("slot"))
	},
}

// titles are what the buttons of the changes say.
var titles = map[string]string{
	"pause": "Pause", "stop": "Stop", "resume": "Resume", "set": "Set", "reset": "Reset", "refill": "Refill", "release": "Release",
}

func (a *asked) length() (time.Duration, error) {
	d, err := time.ParseDuration(a.form.Get("for"))
	if err != nil {
		return 0, &fleet.FieldError{Field: "for", Err: fmt.Errorf("must be a time such as 90s or 2h, got %q", a.form.Get("for"))}
	}
	return d, nil
}

// anyLength is 0 if the field is empty: nobody knows the end.
func (a *asked) anyLength() (time.Duration, error) {
	if a.form.Get("for") == "" {
		return 0, nil
	}
	return a.length()
}

// largest is the most bytes of a form.
const largest = 64 << 10

// errChanged says that a change is not the one that the page has worked out.
var errChanged = errors.New("the limit has changed since the page said what will happen: go back and look again")

// change serves the form of an action, and redirects to the page of the limit.
func (p *Page) change(plan func(*asked) (*fleet.Change, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, largest)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patient)
		defer cancel()
		id, key := r.PostForm.Get("name"), r.PostForm.Get("key")
		n, err := p.fleet.Find(ctx, id)
		if err != nil {
			p.fail(w, err)
			return
		}
		t, err := p.fleet.Target(ctx, n, key, "")
		var change *fleet.Change
		if err == nil {
			change, err = plan(&asked{Target: t, form: r.PostForm, who: p.config.Who(r), fleet: p.fleet})
		}
		if was := r.PostForm.Get("in-force"); err == nil && was != "" && was != t.Row.Limit {
			err = errChanged
		}
		if err == nil {
			err = t.Make(ctx, change, p.config.Who(r))
		}
		var field *fleet.FieldError
		switch {
		case err == nil, errors.Is(err, fleet.ErrNoSlot): // the call has released the slot meanwhile
			to := "limit?name=" + url.QueryEscape(id) // relative, because the page may be mounted at any path
			if key != "" {
				to += "&key=" + url.QueryEscape(key)
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusSeeOther)
		case errors.Is(err, errChanged):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.As(err, &field), errors.Is(err, fleet.ErrSlots), errors.Is(err, reserve.ErrInvalid), errors.Is(err, fleet.ErrUnused):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			p.fail(w, err)
		}
	}
}

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

// errForm says that a form is wrong.
var errForm = errors.New("the form is wrong")

// actions are the changes of a limit, by the names of their forms.
var actions = map[string]func(context.Context, *asked) error{
	"pause": func(ctx context.Context, a *asked) error {
		d, err := a.length("for")
		if err == nil && d <= 0 {
			err = fmt.Errorf("%w: for: must be above 0, got %v", errForm, d)
		}
		if err != nil {
			return err
		}
		return a.Limiter.Pause(ctx, d, fleet.Reason(a.form.Get("reason"), a.who))
	},
	"resume": func(ctx context.Context, a *asked) error { return a.Limiter.Resume(ctx) },
	"set": func(ctx context.Context, a *asked) error {
		limit, err := reserve.ParseLimit(a.form.Get("to"))
		if err != nil {
			return fmt.Errorf("%w: to: %w", errForm, err)
		}
		d := time.Duration(0) // until it is reset or set again
		if a.form.Get("for") != "" {
			if d, err = a.length("for"); err != nil {
				return err
			}
		}
		if err := a.Limiter.SetLimit(ctx, limit, d); err != nil {
			return err
		}
		_ = a.fleet.SetBy(ctx, a.Name, a.Key, a.who) // fleetpace why shows it
		return nil
	},
	"reset": func(ctx context.Context, a *asked) error { return a.Limiter.ResetLimit(ctx) },
	"release": func(ctx context.Context, a *asked) error {
		if a.Row.Err != nil {
			return a.Row.Err
		}
		for _, h := range a.Row.State.Holders {
			if fleet.SlotID(h.Process, h.Number) == a.form.Get("slot") {
				_, err := a.Limiter.Free(ctx, h)
				return err
			}
		}
		return nil // the call has released the slot meanwhile
	},
}

func (a *asked) length(field string) (time.Duration, error) {
	d, err := time.ParseDuration(a.form.Get(field))
	if err != nil {
		return 0, fmt.Errorf("%w: %s: must be a time such as 90s or 2h, got %q", errForm, field, a.form.Get(field))
	}
	return d, nil
}

// largest is the most bytes of a form.
const largest = 64 << 10

// change serves the form of an action, and redirects to the page of the limit.
func (p *Page) change(act func(context.Context, *asked) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, largest)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patient)
		defer cancel()
		id := r.PostForm.Get("name")
		n, err := p.fleet.Find(ctx, id)
		if err != nil {
			p.fail(w, err)
			return
		}
		t, err := p.fleet.Target(ctx, n, r.PostForm.Get("key"), "")
		if err == nil {
			err = act(ctx, &asked{Target: t, form: r.PostForm, who: p.config.Who(r), fleet: p.fleet})
		}
		switch {
		case err == nil:
			w.Header().Set("Location", "limit?name="+url.QueryEscape(id)) // relative, because the page may be mounted at any path
			w.WriteHeader(http.StatusSeeOther)
		case errors.Is(err, errForm), errors.Is(err, reserve.ErrInvalid), errors.Is(err, fleet.ErrUnused):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			p.fail(w, err)
		}
	}
}

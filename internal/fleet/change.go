package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Change is a change of a limit that somebody may make: people see What before they agree.
type Change struct {
	What    string // follows "This will", and "done:"
	But     string // a further sentence, which begins with the period of the one before; often empty
	Command string // the command that does the same
	Do      func(context.Context) error

	done string // what an Event says
}

// FieldError says which field of a change is wrong.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong with the field.
func (e *FieldError) Unwrap() error { return e.Err }

var (
	// ErrNoSlot says that no call holds the slots that are to be freed.
	ErrNoSlot = errors.New("no such slot")

	// ErrSlots says that a limit has slots, which Refill does not make available.
	ErrSlots = errors.New("slots come back when calls are done: use fleetpace release")
)

// command is the command line of a change.
func (t *Target) command(verb string, more ...string) string {
	return command(append(Words(verb, t.Name, t.Key), more...), t.reader.Flags)
}

// Pause lets no call through for a while. who is who does it.
func (t *Target) Pause(length time.Duration, why, who string) (*Change, error) {
	if length <= 0 {
		return nil, &FieldError{"for", fmt.Errorf("must be above 0, got %v", length)}
	}
	more := []string{"--for", length.String()}
	if why != "" {
		more = append(more, "--reason", why)
	}
	return &Change{
		What:    fmt.Sprintf("pause %s for %v: no process of the fleet calls until %s", t, length, time.Now().Add(length).Format(time.DateTime+" MST")),
		Command: t.command("pause", more...),
		Do:      func(ctx context.Context) error { return t.Limiter.Pause(ctx, length, Reason(why, who, time.Now())) },
		done:    fmt.Sprintf("paused for %v%s", length, because(why)),
	}, nil
}

// Stop fails all calls for a while. A length of 0 means that nobody knows the end. who is who does it.
func (t *Target) Stop(length time.Duration, why, who string) (*Change, error) {
	if length < 0 {
		return nil, &FieldError{"for", fmt.Errorf("must not be below 0, got %v", length)}
	}
	done, end, until, more := "stopped", "it is resumed, for a day at most, or the provider serves one of the calls that try it every five minutes", time.Time{}, []string(nil)
	if length > 0 {
		until = time.Now().Add(length)
		done, end, more = "stopped for "+length.String(), until.Format(time.DateTime+" MST"), []string{"--for", length.String()}
	}
	if why != "" {
		more = append(more, "--reason", why)
	}
	return &Change{
		What:    fmt.Sprintf("stop %s: calls of all processes fail until %s", t, end),
		Command: t.command("stop", more...),
		Do: func(ctx context.Context) error {
			if length > 0 {
				until = time.Now().Add(length) // people may have taken their time to agree
			}
			return t.Limiter.Stop(ctx, until, Reason(why, who, time.Now()))
		},
		done: done + because(why),
	}, nil
}

// Resume ends a pause or a stop.
func (t *Target) Resume() *Change {
	what, but := fmt.Sprintf("end the pause of %s", t), ""
	if t.Row.State.Stopped {
		what = fmt.Sprintf("end the stop of %s", t)
		if all := t.Row.State.StoppedTogether; all != nil {
			but = ". Further limits were stopped with it: to end the whole stop, run " + t.reader.Command(append([]string{"resume"}, all...)...)
		}
	} else if !t.Row.Paused {
		what += " (it is not paused)"
	}
	return &Change{What: what, But: but, Command: t.command("resume"), Do: t.Limiter.Resume, done: "resumed"}
}

// Refill makes all permits available. The error is ErrSlots.
func (t *Target) Refill() (*Change, error) {
	st := &t.Row.State
	if st.Limit.Kind() == reserve.KindSlots {
		return nil, fmt.Errorf("%w: %s", ErrSlots, t)
	}
	return &Change{
		What:    fmt.Sprintf("make all %d permits of %s available instead of %.0f", st.Limit.MaxBurst(), t, st.Stored),
		Command: t.command("refill"), Do: t.Limiter.Refill, done: "refilled",
	}, nil
}

// Set overrides the limit for a while. A length of 0 means: until it is reset or set again. who is who does it.
func (r *Reader) Set(t *Target, to string, length time.Duration, until time.Time, who string) (*Change, error) {
	limit, err := reserve.ParseLimit(to)
	if err != nil {
		return nil, &FieldError{"to", err}
	}
	if length < 0 {
		return nil, &FieldError{"for", fmt.Errorf("must not be below 0, got %v", length)}
	}
	if own := t.Limiter.Limit().Kind(); limit.Kind() == reserve.KindPaced && (own == reserve.KindQuota || own == reserve.KindRolling) {
		return nil, &FieldError{"to", fmt.Errorf("%s is of kind %v, and %q is of kind %v: add %q", t, own, to, limit.Kind(), own.String())}
	}
	lasts, more := "until it is reset or set again", []string{"--to", limit.String()}
	switch {
	case !until.IsZero() && length > 0:
		return nil, &FieldError{"until", errors.New("must not be given together with for")}
	case !until.IsZero() && !until.After(time.Now()):
		return nil, &FieldError{"until", fmt.Errorf("must be later than now, got %v", until)}
	case !until.IsZero():
		at := until.UTC().Format(time.RFC3339)
		lasts, more = "until "+at, append(more, "--until", at)
	case length > 0:
		lasts, more = "for "+length.String(), append(more, "--for", length.String())
	}
	return &Change{
		What:    fmt.Sprintf("set %s to %s %s (it is %s now)", t, limit, lasts, t.Row.Limit),
		Command: t.command("set", more...),
		Do: func(ctx context.Context) error {
			if !until.IsZero() {
				if length = time.Until(until); length <= 0 {
					return &FieldError{"until", fmt.Errorf("must be later than now, got %v", until)}
				}
			}
			if err := t.Limiter.SetLimit(ctx, limit, length); err != nil {
				return err
			}
			_ = r.SetBy(ctx, t.Name, t.Key, who) // fleetpace why shows it
			return nil
		},
		done: fmt.Sprintf("set to %s %s", limit, lasts),
	}, nil
}

// Reset removes an override.
func (t *Target) Reset() *Change {
	what := fmt.Sprintf("remove the override of %s: the configured limit is %s", t, t.Limit)
	if t.Row.plan {
		what = fmt.Sprintf("remove the override of %s: its plan is %s", t, t.Row.Own)
	}
	if !t.Row.Set {
		what = fmt.Sprintf("remove the override of %s: there is none, and its limit %s stays; to make permits available, use fleetpace refill", t, t.Row.Limit)
	}
	return &Change{What: what, Command: t.command("reset"), Do: t.Limiter.ResetLimit, done: "reset"}
}

// Release frees the slots of a call, by their SlotID. The error is ErrNoSlot.
func (t *Target) Release(slot string) (*Change, error) {
	for _, h := range t.Row.State.Holders {
		if SlotID(h.Process, h.Number) != slot {
			continue
		}
		return &Change{
			What: fmt.Sprintf("free %d of the slots of %s, which %s has held for %s: its call continues, so more calls may run than the limit allows",
				h.Slots, t, slot, time.Since(h.Since).Round(time.Second)),
			Command: t.command("release", slot),
			Do: func(ctx context.Context) error {
				freed, err := t.Limiter.Free(ctx, h)
				if err == nil && !freed {
					err = fmt.Errorf("%w: %q was released meanwhile", ErrNoSlot, slot)
				}
				return err
			},
			done: "slot " + slot + " freed",
		}, nil
	}
	return nil, fmt.Errorf("%w: %q of %s; fleetpace show lists the slots", ErrNoSlot, slot, t)
}

// Misses returns a warning if a change may affect no call: each key has its own queue.
func (r *Reader) Misses(ctx context.Context, t *Target) string {
	survey, err := r.Survey(ctx, t.Name)
	if err != nil || len(survey.Keys) == 0 || slices.ContainsFunc(survey.Keys, func(q Queue) bool { return q.Key == t.Key }) {
		return ""
	}
	used := ""
	for _, q := range survey.Keys { // the busiest key comes first
		if used = q.Key; used != "" {
			break
		}
	}
	switch {
	case used == "":
		return ". But no process has used this key lately, and its calls use no keys"
	case t.Key == "":
		return fmt.Sprintf(". But its calls use keys, such as %q, and this change affects none of these keys: name one", used)
	}
	return fmt.Sprintf(". But no process has used this key lately; an example of a key in use is %q", used)
}

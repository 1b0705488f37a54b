package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// change is a command that changes a limit. It says what it will do, and asks for confirmation.
type change struct {
	use, short string
	flags      func(*cobra.Command)
	// plan says what will be done, and returns the function that does it.
	plan func(ctx context.Context, t *target) (what string, do func(context.Context) error, err error)
}

// target is the limit to change.
type target struct {
	*fleet.Target
	rest []string // further arguments
}

func (a *app) changes(c change) *cobra.Command {
	var known string
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Args: cobra.RangeArgs(1, 2+strings.Count(c.use, "SLOT")), ValidArgsFunction: a.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			t, err := a.target(ctx, args, known, strings.Contains(c.use, "SLOT"))
			if err != nil {
				return err
			}
			what, do, err := c.plan(ctx, t)
			if err != nil {
				return err
			}
			what += a.misses(ctx, t)
			if err := a.confirm(what); err != nil {
				return err
			}
			if err := do(ctx); err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(map[string]string{"limit": t.Name.String(), "key": t.Key, "done": what})
			}
			fmt.Fprintln(a.out, "done:", plain(what))
			return nil
		},
	}
	if c.flags != nil {
		c.flags(cmd)
	}
	cmd.Flags().StringVar(&known, "limit", "", "the configured `limit`, needed if no process has used it for ten minutes")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// target finds the limit that the arguments name, and its state.
func (a *app) target(ctx context.Context, args []string, known string, slot bool) (*target, error) {
	t := &target{}
	if slot {
		last := len(args) - 1
		args, t.rest = args[:last], args[last:]
		if len(args) == 0 {
			return nil, usageError{errors.New("give a limit and a slot; fleetpace show LIMIT lists the slots")}
		}
	}
	n, key, err := a.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if t.Target, err = a.fleet.Target(ctx, n, key, known); errors.Is(err, fleet.ErrUnused) || errors.Is(err, reserve.ErrInvalid) {
		err = usageError{err}
	}
	return t, err
}

// misses returns a warning if the change may affect no call: each key has its own queue.
func (a *app) misses(ctx context.Context, t *target) string {
	survey, err := a.fleet.Survey(ctx, t.Name)
	if err != nil || len(survey.Keys) == 0 || slices.ContainsFunc(survey.Keys, func(q fleet.Queue) bool { return q.Key == t.Key }) {
		return ""
	}
	used := survey.Keys[0].Key
	if t.Key == "" {
		return fmt.Sprintf(". But its calls use keys, such as %q, and this change affects none of these keys: name one", used)
	}
	return fmt.Sprintf(". But no process has used this key lately; an example of a key in use is %q", used)
}

// confirm says what will be done and asks for confirmation, unless -y was given.
func (a *app) confirm(what string) error {
	if a.yes {
		return nil
	}
	if f, ok := a.in.(*os.File); ok && !isatty.IsTerminal(f.Fd()) {
		return usageError{fmt.Errorf("not a terminal: pass -y to confirm: %s", what)}
	}
	fmt.Fprintf(a.errs, "This will %s.\nContinue? [y/N] ", plain(what))
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errNotConfirmed
	}
	return nil
}

// me returns user@host, to show who made a change.
func me() string {
	name, host := "somebody", "somewhere"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

func (a *app) pause() *cobra.Command {
	var length time.Duration
	var reason string
	return a.changes(change{
		use: "pause LIMIT [KEY]", short: "Pause a limit for a while",
		flags: func(c *cobra.Command) {
			c.Flags().DurationVar(&length, "for", 10*time.Minute, "the `duration`, such as 90s or 2h")
			c.Flags().StringVar(&reason, "reason", "", "why it is paused, a `text` for logs and operators")
		},
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			if length <= 0 {
				return "", nil, usageError{fmt.Errorf("--for: must be above 0, got %v", length)}
			}
			why := fleet.Reason(reason, me())
			return fmt.Sprintf("pause %s for %v: no process of the fleet calls until %s", t, length, time.Now().Add(length).Format(time.DateTime+" MST")),
				func(ctx context.Context) error { return t.Limiter.Pause(ctx, length, why) }, nil
		},
	})
}

func (a *app) resume() *cobra.Command {
	return a.changes(change{
		use: "resume LIMIT [KEY]", short: "End a pause",
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			what := fmt.Sprintf("end the pause of %s", t)
			if !t.Row.Paused {
				what += " (it is not paused)"
			}
			return what, t.Limiter.Resume, nil
		},
	})
}

func (a *app) refill() *cobra.Command {
	return a.changes(change{
		use: "refill LIMIT [KEY]", short: "Make all permits available",
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			if t.Row.State.Limit.Kind() == reserve.KindSlots {
				return "", nil, usageError{fmt.Errorf("%s has slots, which come back when calls are done: use fleetpace release", t)}
			}
			return fmt.Sprintf("make all permits of %s available: %.0f of %d are left now", t, t.Row.State.Stored, t.Row.State.Limit.MaxBurst()), t.Limiter.Refill, nil
		},
	})
}

func (a *app) set() *cobra.Command {
	var to string
	var length time.Duration
	return a.changes(change{
		use: "set LIMIT [KEY] --to LIMIT", short: "Override a limit",
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&to, "to", "", "the new `limit`, such as 50/s or \"600/minute burst 20\"")
			c.Flags().DurationVar(&length, "for", 0, "the `duration`; 0: until it is reset or set again")
		},
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			limit, err := reserve.ParseLimit(to)
			if err != nil {
				return "", nil, usageError{fmt.Errorf("--to: %w", err)}
			}
			until := "until it is reset or set again"
			if length > 0 {
				until = "for " + length.String()
			}
			return fmt.Sprintf("set %s to %s %s (it is %s now)", t, limit, until, t.Row.Limit), func(ctx context.Context) error {
				if err := t.Limiter.SetLimit(ctx, limit, length); err != nil {
					return err
				}
				_ = a.fleet.SetBy(ctx, t.Name, t.Key, me()) // fleetpace why shows it
				return nil
			}, nil
		},
	})
}

func (a *app) reset() *cobra.Command {
	return a.changes(change{
		use: "reset LIMIT [KEY]", short: "Remove an override",
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			what := fmt.Sprintf("remove the override of %s: the configured limit is %s", t, t.Limit)
			if !t.Row.Set {
				what = fmt.Sprintf("remove the override of %s: there is none, and its limit %s stays; to make permits available, use fleetpace refill", t, t.Row.Limit)
			}
			return what, t.Limiter.ResetLimit, nil
		},
	})
}

func (a *app) release() *cobra.Command {
	return a.changes(change{
		use: "release LIMIT [KEY] SLOT", short: "Free a call's slots",
		plan: func(_ context.Context, t *target) (string, func(context.Context) error, error) {
			for _, h := range t.Row.State.Holders {
				if fleet.SlotID(h.Process, h.Number) != t.rest[0] {
					continue
				}
				return fmt.Sprintf("free %d of the slots of %s, which %s has held for %s: its call continues, so more calls may run than the limit allows",
						h.Slots, t, t.rest[0], time.Since(h.Since).Round(time.Second)), func(ctx context.Context) error {
						freed, err := t.Limiter.Free(ctx, h)
						if err == nil && !freed {
							err = fmt.Errorf("%w: %q was released meanwhile", errNoSlot, t.rest[0])
						}
						return err
					}, nil
			}
			return "", nil, fmt.Errorf("%w: %q of %s; fleetpace show lists the slots", errNoSlot, t.rest[0], t)
		},
	})
}

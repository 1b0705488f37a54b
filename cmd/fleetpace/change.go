package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
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
	long       string
	example    string // without "fleetpace", one per line
	flags      func(*cobra.Command)
	plan       func(*target) (*fleet.Change, error)
}

// target is the limit to change.
type target struct {
	*fleet.Target
	rest []string // further arguments
}

// done is what the format json says of a change that was made.
func (t *target) done(what string) map[string]string {
	return map[string]string{"limit": t.Name.String(), "key": t.Key, "done": what}
}

func (a *app) changes(c change) *cobra.Command {
	var known string
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: "  fleetpace " + c.example, Args: cobra.RangeArgs(1, 2+strings.Count(c.use, "SLOT")), ValidArgsFunction: a.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			t, err := a.target(ctx, args, known, strings.Contains(c.use, "SLOT"))
			group, slash := strings.CutSuffix(args[0], "/")
			_, isEnd := ends[cmd.Name()]
			if errors.Is(err, fleet.ErrUnknown) || isEnd && slash {
				switch names, failed := a.fleet.Group(ctx, group); {
				case failed != nil || names == nil:
				case isEnd:
					return a.endsOfGroup(ctx, cmd, group, names, args[1:], c)
				case len(args) == 1:
					return a.ofGroup(cmd, names, err)
				}
			}
			note := ""
			if err == nil && isEnd {
				note, err = a.besideGroup(ctx, cmd.Name(), args[0], t)
			}
			if err != nil {
				return err
			}
			plan, err := c.plan(t)
			var field *fleet.FieldError
			switch {
			case errors.As(err, &field):
				return usageError{fmt.Errorf("--%w", err)}
			case errors.Is(err, fleet.ErrSlots):
				return usageError{err}
			case err != nil:
				return err
			}
			what := plan.What + plan.But + a.fleet.Misses(ctx, t.Target) + note
			if err := a.confirm(what); err != nil {
				return err
			}
			if err := t.Make(ctx, plan, me()); err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(t.done(what))
			}
			fmt.Fprintln(a.out, "done:", plain(what))
			return nil
		},
	}
	if c.flags != nil {
		c.flags(cmd)
	}
	cmd.Flags().StringVar(&known, "limit", "", "the configured `limit`, such as \"10/s burst 5\" or \"4 at once\", needed if no process has used it for ten minutes")
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

// confirm says what will be done and asks for confirmation, unless -y was given.
func (a *app) confirm(what string) error {
	if a.yes {
		return nil
	}
	if f, ok := a.in.(*os.File); ok && !isatty.IsTerminal(f.Fd()) {
		return fmt.Errorf("%w, because the input is no terminal: pass -y to confirm: %s", errNotConfirmed, what)
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
		long: `Grants no call of the whole fleet a turn for a while. Calls wait, keep their order, and follow at the rate afterwards.
With a KEY, only that key is paused. Without a KEY, its keys are not paused, only calls without a key.`,
		example: `pause openai --for 10m --reason "the provider asks for it"`,
		flags: func(c *cobra.Command) {
			c.Flags().DurationVar(&length, "for", 10*time.Minute, "the `duration`, such as 90s or 2h")
			c.Flags().StringVar(&reason, "reason", "", "why it is paused, a `text` for logs and operators")
		},
		plan: func(t *target) (*fleet.Change, error) { return t.Pause(length, reason, me()) },
	})
}

func (a *app) stop() *cobra.Command {
	var length time.Duration
	var reason string
	return a.changes(change{
		use: "stop LIMIT [KEY]", short: "Fail all calls of a limit, as if its account were used up",
		long: `Fails all calls of the whole fleet at a limit, waiting ones within a second. Without --for nobody knows the end: one call
probes every five minutes, and the stop ends when the provider has served it, after a day, or with fleetpace resume.
With a KEY, only that key is stopped. Without a KEY, its keys are not stopped, only calls without a key.`,
		example: `stop openai --for 2h --reason "the credit is used up"`,
		flags: func(c *cobra.Command) {
			c.Flags().DurationVar(&length, "for", 0, "the `duration`, such as 2h; 0: until a call is served, a day at most")
			c.Flags().StringVar(&reason, "reason", "", "why it is stopped, a `text` for callers and operators")
		},
		plan: func(t *target) (*fleet.Change, error) { return t.Stop(length, reason, me()) },
	})
}

func (a *app) resume() *cobra.Command {
	return a.changes(change{
		use: "resume LIMIT|GROUP [KEY]", short: "End a pause or a stop",
		long: `Ends a pause or a stop at once. Calls that wait get their turns in order. Without a pause or a stop it changes nothing.
With a GROUP, it ends those of all limits of the group and their keys, or with a KEY of that key.
GROUP/ is the group if a limit has the same name.`,
		example: "resume openai\n  fleetpace resume openai/prod/calls\n  fleetpace resume openai/prod",
		plan:    func(t *target) (*fleet.Change, error) { return t.Resume(), nil },
	})
}

func (a *app) refill() *cobra.Command {
	return a.changes(change{
		use: "refill LIMIT [KEY]", short: "Make all permits available",
		long:    "Makes all permits of a limit, or of one KEY, available at once, for example when the provider has reset its count.\nPauses and overrides stay.",
		example: "refill shop acme",
		plan:    func(t *target) (*fleet.Change, error) { return t.Refill() },
	})
}

func (a *app) set() *cobra.Command {
	var to string
	var length time.Duration
	var until time.Time
	return a.changes(change{
		use: "set LIMIT [KEY] --to LIMIT", short: "Override a limit",
		long: `Lets the fleet follow another limit than the one that its processes are configured with, for a time or until
fleetpace reset. The kind must stay the same. Without a KEY, the limits of its keys do not change. Forms of a limit: 50/s, "600/minute burst 20", 1000/day, "4 at once".`,
		example: `set openai --to "50/s burst 10" --for 1h`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&to, "to", "", "the new `limit`, such as 50/s or \"600/minute burst 20\"")
			c.Flags().DurationVar(&length, "for", 0, "the `duration`; 0: until it is reset or set again")
			c.Flags().TimeVar(&until, "until", time.Time{}, []string{time.RFC3339}, "a `moment` in place of a duration, such as 2026-11-28T20:00:00Z")
		},
		plan: func(t *target) (*fleet.Change, error) { return a.fleet.Set(t.Target, to, length, until, me()) },
	})
}

func (a *app) reset() *cobra.Command {
	return a.changes(change{
		use: "reset LIMIT|GROUP [KEY]", short: "Remove an override",
		long: `Removes the override that fleetpace set made: the configured limit, or the plan of the key, is in force again.
With a GROUP, it removes those of all limits of the group and their keys, or with a KEY of that key.`,
		example: "reset openai",
		plan:    func(t *target) (*fleet.Change, error) { return t.Reset(), nil },
	})
}

func (a *app) release() *cobra.Command {
	return a.changes(change{
		use: "release LIMIT [KEY] SLOT", short: "Free a call's slots",
		long: `Takes the slots of a call away, so that other calls get them. Use it for a call that hangs or is over. The call itself
continues. A SLOT is the name of the call in the list of fleetpace show LIMIT.`,
		example: "release batch SLOT",
		plan:    func(t *target) (*fleet.Change, error) { return t.Release(t.rest[0]) },
	})
}

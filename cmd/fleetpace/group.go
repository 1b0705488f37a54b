package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// keysOfGroup is at how many keys of a limit a change of its group looks: those with the most calls.
const keysOfGroup = 20

// ends are the changes that end what another one has begun, and whether there is something to end. They may be made of
// a group.
var ends = map[string]struct {
	holds func(*fleet.Row) bool
	what  string
}{
	"resume": {func(row *fleet.Row) bool { return row.Paused }, "paused or stopped"},
	"reset":  {func(row *fleet.Row) bool { return row.Set }, "overridden"},
}

// besideGroup returns what to add to a change of a limit whose full name is also that of a group. The error says that the
// argument may mean either.
func (a *app) besideGroup(ctx context.Context, verb, arg string, t *target) (note string, err error) {
	names, err := a.fleet.Group(ctx, arg)
	if err != nil || names == nil {
		return "", err
	}
	group := a.fleet.Command(verb, arg+"/")
	if arg != t.Name.String() {
		return "", usageError{fmt.Errorf("%q may be %s or a group. For the limit, run: %s. For the group, run: %s",
			arg, t, a.fleet.Command(fleet.Words(verb, t.Name, t.Key)...), group)}
	}
	return fmt.Sprintf(". There is also a group %s, whose limits stay as they are: for them, run %s", arg, group), nil
}

// endsOfGroup makes a change at each limit of a group where it ends something: at all keys, or at one.
func (a *app) endsOfGroup(ctx context.Context, cmd *cobra.Command, group string, names []fleet.Name, key []string, c change) error {
	if cmd.Flags().Changed("limit") {
		return usageError{fmt.Errorf("--limit: %s is a group, and its limits differ: name one of them", group)}
	}
	end := ends[cmd.Name()]
	var targets []*target
	var plans []*fleet.Change
	var texts, further []string
	var failed []error // the others are changed nevertheless
	for _, n := range names {
		keys, more, err := a.keysOf(ctx, n, key)
		if err != nil {
			return err
		}
		if more {
			further = append(further, fmt.Sprintf("Of %s, the %d keys with the most calls were looked at: name others, as in %s",
				n, keysOfGroup, a.fleet.Command(cmd.Name(), n.String(), "KEY")))
		}
		for _, key := range keys {
			t := &target{}
			if t.Target, err = a.fleet.Target(ctx, n, key, ""); errors.Is(err, fleet.ErrUnused) {
				further = append(further, fmt.Sprintf("No process has used %s for ten minutes. If it is %s, run: %s",
					n, end.what, a.fleet.Command(append(fleet.Words(cmd.Name(), n, key), "--limit", "LIMIT")...)))
				break
			} else if err != nil {
				return err
			}
			if t.Row.Err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", t, t.Row.Err))
				continue
			}
			if !end.holds(t.Row) {
				continue
			}
			plan, err := c.plan(t)
			if err != nil {
				return err
			}
			targets, plans, texts = append(targets, t), append(plans, plan), append(texts, plan.What)
		}
	}
	if len(plans) > 0 {
		if err := a.confirm(strings.Join(texts, ", and ")); err != nil {
			return err
		}
	}
	done := []map[string]string{}
	for i, t := range targets {
		if err := t.Make(ctx, plans[i], me()); err != nil {
			failed = append(failed, err)
			continue
		}
		done = append(done, t.done(texts[i]))
		if a.format != "json" {
			fmt.Fprintln(a.out, "done:", plain(texts[i]))
		}
	}
	if a.format == "json" {
		if err := a.json(done); err != nil {
			return err
		}
	}
	if len(plans) == 0 {
		of := group
		if len(key) > 0 {
			of += " for the key " + key[0]
		}
		further = slices.Insert(further, 0, fmt.Sprintf("No limit of %s is %s.", of, end.what))
	}
	for _, text := range further {
		fmt.Fprintln(a.errs, plain(text))
	}
	return errors.Join(failed...)
}

// keysOf returns the keys of a limit at which to look, and whether there are more.
func (a *app) keysOf(ctx context.Context, n fleet.Name, key []string) (keys []string, more bool, err error) {
	if len(key) > 0 {
		return key, false, nil
	}
	survey, err := a.fleet.Survey(ctx, n)
	if err != nil {
		return nil, false, err
	}
	keys = []string{""}
	for _, q := range survey.Keys {
		if q.Key == "" {
			continue
		}
		if len(keys) > keysOfGroup {
			return keys, true, nil
		}
		keys = append(keys, q.Key)
	}
	return keys, false, nil
}

// ofGroup adds to the error of a change of a group the commands that make the change. A command changes one limit, so
// that nobody changes limits that they did not mean.
func (a *app) ofGroup(cmd *cobra.Command, names []fleet.Name, unknown error) error {
	var flags []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "yes" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			flags = append(flags, "--"+f.Name, f.Value.String())
		}
	})
	var commands []string
	for _, n := range names {
		commands = append(commands, plain(a.fleet.Command(append(fleet.Words(cmd.Name(), n, ""), flags...)...)))
	}
	return fmt.Errorf("%w. Run:\n  %s", unknown, strings.Join(commands, "\n  "))
}

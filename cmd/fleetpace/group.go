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
	p := &groupPlan{}
	for _, n := range names {
		if err := a.planEnds(ctx, p, cmd.Name(), n, key, c); err != nil {
			return err
		}
	}
	if len(p.changes) > 0 {
		if err := a.confirm(p.what()); err != nil {
			return err
		}
	}
	if err := a.makeAll(ctx, p); err != nil {
		return err
	}
	if len(p.changes) == 0 {
		of := group
		if len(key) > 0 {
			of += " for the key " + key[0]
		}
		p.further = slices.Insert(p.further, 0, fmt.Sprintf("No limit of %s is %s.", of, ends[cmd.Name()].what))
	}
	for _, text := range p.further {
		fmt.Fprintln(a.errs, plain(text))
	}
	return errors.Join(p.failed...)
}

// groupPlan is what a command changes at the limits of a group.
type groupPlan struct {
	changes []planned
	further []string // what else the user may want to do
	failed  []error  // the other limits are changed nevertheless
}

// planned is a change of one limit or key.
type planned struct {
	*target
	change *fleet.Change
}

// what says all changes.
func (p *groupPlan) what() string {
	var texts []string
	for _, planned := range p.changes {
		texts = append(texts, planned.change.What)
	}
	return strings.Join(texts, ", and ")
}

// planEnds adds to a plan the changes of one limit that end something.
func (a *app) planEnds(ctx context.Context, p *groupPlan, verb string, n fleet.Name, key []string, c change) error {
	end := ends[verb]
	keys, more, err := a.keysOf(ctx, n, key)
	if err != nil {
		return err
	}
	if more {
		p.further = append(p.further, fmt.Sprintf("Of %s, the %d keys with the most calls were looked at: name others, as in %s",
			n, keysOfGroup, a.fleet.Command(verb, n.String(), "KEY")))
	}
	for _, key := range keys {
		t := &target{}
		if t.Target, err = a.fleet.Target(ctx, n, key, ""); errors.Is(err, fleet.ErrUnused) {
			p.further = append(p.further, fmt.Sprintf("No process has used %s for ten minutes. If it is %s, run: %s",
				n, end.what, a.fleet.Command(append(fleet.Words(verb, n, key), "--limit", "LIMIT")...)))
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case t.Row.Err != nil:
			p.failed = append(p.failed, fmt.Errorf("%s: %w", t, t.Row.Err))
		case end.holds(t.Row):
			change, err := c.plan(t)
			if err != nil {
				return err
			}
			p.changes = append(p.changes, planned{t, change})
		}
	}
	return nil
}

// makeAll makes the changes of a plan, and says which were made.
func (a *app) makeAll(ctx context.Context, p *groupPlan) error {
	done := []map[string]string{}
	for _, planned := range p.changes {
		if err := planned.Make(ctx, planned.change, me()); err != nil {
			p.failed = append(p.failed, err)
			continue
		}
		done = append(done, planned.done(planned.change.What))
		if a.format != "json" {
			fmt.Fprintln(a.out, "done:", plain(planned.change.What))
		}
	}
	if a.format == "json" {
		return a.json(done)
	}
	return nil
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

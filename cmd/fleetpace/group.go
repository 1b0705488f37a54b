package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// keysOfGroup is the most keys of a limit for which a change of its group is named: those with the most calls.
const keysOfGroup = 20

// ends are the changes that end what another one has begun, and whether there is something to end.
var ends = map[string]struct {
	holds func(*fleet.Row) bool
	what  string
}{
	"resume": {func(row *fleet.Row) bool { return row.Paused }, "paused or stopped"},
	"reset":  {func(row *fleet.Row) bool { return row.Set }, "overridden"},
}

// ofGroup adds to the error of a change of a group the commands that make the change. A command changes one limit, so
// that nobody changes limits that they did not mean.
func (a *app) ofGroup(ctx context.Context, cmd *cobra.Command, group string, unknown error) error {
	names, err := a.fleet.Group(ctx, group)
	if err != nil || names == nil {
		return unknown
	}
	var flags []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "yes" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			flags = append(flags, "--"+f.Name, f.Value.String())
		}
	})
	var commands []string
	var unread string // a limit with keys that are not looked at
	end, isEnd := ends[cmd.Name()]
	for _, n := range names {
		keys := []string{""}
		if isEnd {
			survey, err := a.fleet.Survey(ctx, n)
			if err != nil {
				return err
			}
			for _, q := range survey.Keys {
				if len(keys) > keysOfGroup {
					unread = n.String()
				} else if q.Key != "" {
					keys = append(keys, q.Key)
				}
			}
			look, err := a.fleet.Look(ctx, n, 0, keys...)
			if err != nil {
				return err
			}
			keys = nil
			for i := range look.Rows {
				if end.holds(&look.Rows[i]) {
					keys = append(keys, look.Rows[i].Key)
				}
			}
		}
		for _, key := range keys {
			commands = append(commands, plain(a.fleet.Command(append(fleet.Words(cmd.Name(), n, key), flags...)...)))
		}
	}
	further := ""
	if unread != "" {
		further = fmt.Sprintf(" Of each limit, the %d keys with the most calls were looked at: name others, as in %s", keysOfGroup,
			plain(a.fleet.Command(cmd.Name(), unread, "KEY")))
	}
	if len(commands) == 0 {
		return fmt.Errorf("%w. None of them is %s.%s", unknown, end.what, further)
	}
	if further != "" {
		further = "\n" + further[1:]
	}
	return fmt.Errorf("%w. Run:\n  %s%s", unknown, strings.Join(commands, "\n  "), further)
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// keysOfGroup is the most keys of a limit for which a change of its group is named.
const keysOfGroup = 20

// ends are the changes that end what another one has begun, and whether there is something to end.
var ends = map[string]struct {
	holds   func(*fleet.Row) bool
	nothing string
}{
	"resume": {func(row *fleet.Row) bool { return row.Paused }, "None of them is paused or stopped."},
	"reset":  {func(row *fleet.Row) bool { return row.Set }, "None of them is overridden."},
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
	end, isEnd := ends[cmd.Name()]
	for _, n := range names {
		keys := []string{""}
		if isEnd {
			look, err := a.fleet.Look(ctx, n, keysOfGroup)
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
			words := []string{cmd.Name(), n.String()}
			if key != "" {
				words = append(words, key)
			}
			commands = append(commands, plain(a.fleet.Command(append(words, flags...)...)))
		}
	}
	if len(commands) == 0 {
		return fmt.Errorf("%w. %s", unknown, end.nothing)
	}
	return fmt.Errorf("%w. Run:\n  %s", unknown, strings.Join(commands, "\n  "))
}

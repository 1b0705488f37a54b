package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// source is the version of this source. The clients and the chart have the same one: release/set
// writes it everywhere.
const source = "0.3.0-dev"

// commit is that of a release, which the linker sets.
var commit string

// builtFrom returns the commit that the command was built from. Outside of releases it is known if
// go build found it in git.
func builtFrom() string {
	from := commit
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				from = cmp.Or(from, s.Value)
			}
		}
	}
	return cmp.Or(from, "unknown")
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Annotations: map[string]string{offline: "yes"},
		RunE: func(*cobra.Command, []string) error {
			if a.format == "json" {
				return a.json(map[string]string{"version": source, "commit": builtFrom(), "go": runtime.Version()})
			}
			fmt.Fprintf(a.out, "fleetpace %s (commit %s, %s)\n", source, builtFrom(), runtime.Version())
			return nil
		},
	}
}

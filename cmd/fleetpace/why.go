package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

func (a *app) why() *cobra.Command {
	var fails bool
	c := &cobra.Command{
		Use: "why LIMIT [KEY|ID]", Short: "Say why calls wait, in one sentence with evidence",
		Long: "Says why the calls of a limit or a key wait, or why a booked task waits. ID is any part of the task's ID.",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.names, Annotations: map[string]string{offline: "it says so itself"},
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := a.explain(cmd, args)
			if err != nil {
				return err
			}
			if a.format == "json" {
				err = a.json(answer)
			} else {
				fmt.Fprintln(a.out, plain(answer.Text))
				if answer.Do != "" {
					fmt.Fprintln(a.out, strings.TrimSpace(plain(answer.Do)+" "+plain(answer.Command)))
				}
				for _, e := range answer.Evidence {
					fmt.Fprintln(a.out, "  "+plain(e))
				}
			}
			if err == nil && answer.Reason == fleet.WhyAway {
				return errSaid
			}
			if err == nil && fails && (answer.Held > 0 || answer.Reason == fleet.WhyCorrupt || answer.Reason == fleet.WhyKind || answer.Reason == fleet.WhyVersion) {
				return errHeldBack
			}
			return err
		},
	}
	c.Flags().BoolVar(&fails, "exit-code", false, "exit with 10 if calls are held back (some wait or are booked and have no turn now), or if calls of a process fail")
	return c
}

// explain returns the answer to why. If Redis does not answer, it says so.
func (a *app) explain(cmd *cobra.Command, args []string) (*fleet.Answer, error) {
	ctx := cmd.Context()
	if err := a.connect(ctx); err != nil {
		if errors.Is(err, errConnect) && ctx.Err() == nil {
			return fleet.Away(args[0], err), nil
		}
		return nil, err
	}
	n, which, err := a.find(ctx, args)
	var answer *fleet.Answer
	if err == nil {
		answer, err = a.fleet.Explain(ctx, n, which)
	}
	if err != nil && ctx.Err() == nil && fleet.IsAway(err) {
		return fleet.Away(args[0], err), nil
	}
	return answer, err
}

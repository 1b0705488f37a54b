package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// using is a key or a flow that uses a limit, or waits for it.
type using struct {
	Limit     string  `json:"limit"`
	Key       string  `json:"key,omitempty"`
	Flow      string  `json:"flow,omitempty"`
	Waiting   int     `json:"waiting"`
	Oldest    float64 `json:"oldest"`
	PerSecond float64 `json:"perSecond"` // calls per second; unknown for flows
}

func (a *app) top() *cobra.Command {
	var most int
	var by string
	c := &cobra.Command{
		Use: "top [LIMIT]", Short: "Show who uses limits and who waits, by key or flow", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.names,
		Long: "Shows whose calls are made and whose wait, by key or flow. It counts for three seconds, to show calls per second.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if by != "key" && by != "flow" {
				return usageError{fmt.Errorf("--by: must be key or flow, got %q", by)}
			}
			if most < 1 {
				return usageError{fmt.Errorf("-n: must be at least 1, got %d", most)}
			}
			all, err := a.users(cmd.Context(), args, by)
			if err != nil {
				return err
			}
			all = all[:min(most, len(all))]
			if refused := a.fleet.Refused(cmd.Context()); refused != nil {
				fmt.Fprintln(a.errs, plain(refused.Text+" "+refused.More))
			}
			if a.format == "json" {
				return a.json(all)
			}
			rows := [][]string{{"LIMIT", "KEY", "WAITING", "LONGEST", "CALLS/S"}}
			if by == "flow" {
				rows = [][]string{{"LIMIT", "FLOW", "WAITING", "LONGEST"}}
			}
			for _, u := range all {
				row := []string{u.Limit, named(cmp.Or(u.Key, u.Flow)), strconv.Itoa(u.Waiting), fleet.Span(u.Oldest)}
				if by == "key" {
					row = append(row, fleet.Number(u.PerSecond))
				}
				rows = append(rows, row)
			}
			return table(a.out, rows)
		},
	}
	c.Flags().IntVarP(&most, "number", "n", 20, "the `number` of lines")
	c.Flags().StringVar(&by, "by", "key", "count by `WHAT`: key or flow")
	return c
}

// sampled is how long top counts: more than two heartbeats.
const sampled = 3 * time.Second

func (a *app) users(ctx context.Context, args []string, by string) ([]using, error) {
	names, err := a.fleet.Names(ctx)
	if len(args) > 0 && err == nil {
		names = names[:0]
		var n fleet.Name
		if n, err = a.fleet.Find(ctx, args[0]); err == nil {
			names = append(names, n)
		}
	}
	if err != nil {
		return nil, err
	}
	all := []using{}
	var rates fleet.Rates
	for last := range 2 {
		for _, n := range names {
			s, err := a.fleet.Survey(ctx, n)
			if err != nil {
				return nil, err
			}
			byKey := rates.ByKey(s)
			if last == 1 {
				all = append(all, usersOf(s, byKey, by)...)
			}
		}
		if last == 0 && by == "key" && !rest(ctx, sampled) {
			return nil, ctx.Err()
		}
	}
	slices.SortStableFunc(all, func(x, y using) int {
		return cmp.Or(cmp.Compare(y.PerSecond, x.PerSecond), cmp.Compare(y.Waiting, x.Waiting))
	})
	return all, nil
}

func usersOf(s *fleet.Survey, rates map[string]fleet.Rate, by string) (all []using) {
	queues := s.Keys
	if by == "flow" {
		queues = s.Flows
	}
	for _, q := range queues {
		u := using{Limit: s.Name.String(), Waiting: q.Calls, Oldest: q.Oldest}
		if by == "flow" {
			u.Flow = q.Key
		} else {
			u.Key, u.PerSecond = q.Key, rates[q.Key].Calls
		}
		all = append(all, u)
	}
	return all
}

// rest sleeps, and reports false if the context ends first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

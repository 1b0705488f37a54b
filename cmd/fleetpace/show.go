package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use: "show LIMIT [KEY]", Short: "Show the state of a limit, its keys and its processes", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.names,
		Long: `Shows the limit in force, what is left, pauses and stops, how many calls wait, calls that hold slots, processes, and the last changes that people made.
Without a KEY it lists the keys that are used most.`,
		Example: "  fleetpace show openai\n  fleetpace show shop acme",
		RunE: func(cmd *cobra.Command, args []string) error {
			n, key, err := a.find(cmd.Context(), args)
			if err != nil {
				return err
			}
			var keys []string // nil: the keys that are used most
			if key != "" {
				keys = []string{key}
			}
			look, err := a.fleet.Look(cmd.Context(), n, 20, keys...)
			if err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(look)
			}
			if err := a.print(look); err != nil {
				return err
			}
			return a.happened(cmd.Context(), n)
		},
	}
}

func (a *app) print(look *fleet.Look) error {
	fmt.Fprintf(a.out, "%s\n", plain(look.Name.String()))
	if look.Limit == "" {
		fmt.Fprintln(a.out, "  no process has used it for ten minutes")
	} else {
		fmt.Fprintf(a.out, "  configured limit %s\n", plain(look.Limit))
	}
	if refuses := look.Refuses(); refuses != "" {
		fmt.Fprintf(a.out, "  %s\n", plain(refuses))
	}
	for limit, n := range look.Differ {
		fmt.Fprintf(a.out, "  DIFFERENT LIMITS: %s in %d\n", plain(limit), n)
	}
	for _, p := range look.Unfit() {
		if foreign := look.Foreign(p); foreign > 0 {
			fmt.Fprintf(a.out, "  ANOTHER VERSION: process %d on %s speaks protocol %d, beside processes of protocol %d; its calls fail since %s\n",
				p.Report.PID, plain(p.Report.Host), p.Report.Protocol, foreign, p.Fails.Format("2 Jan 15:04:05 MST"))
			continue
		}
		if look.Apart(p) {
			fmt.Fprintf(a.out, "  ANOTHER VERSION: it used the limit until now; calls of process %d on %s fail since %s\n", p.Report.PID, plain(p.Report.Host), p.Fails.Format("2 Jan 15:04:05 MST"))
			continue
		}
		fmt.Fprintf(a.out, "  ANOTHER KIND OF LIMIT: %s, of process %d on %s; its calls fail since %s\n", plain(p.Limit), p.Report.PID, plain(p.Report.Host), p.Fails.Format("2 Jan 15:04:05 MST"))
	}
	for i := range look.Rows {
		if set := look.Override(&look.Rows[i]); set != "" {
			fmt.Fprintf(a.out, "  OVERRIDDEN: %s\n", plain(set))
		}
	}
	rows := [][]string{{"KEY", "LIMIT", "WAITING", "LONGEST", "BOOKED", "STORED", "A NEW CALL WAITS", "PAUSED"}}
	for i := range look.Rows {
		r := &look.Rows[i]
		if r.Error != "" {
			rows = append(rows, []string{named(r.Key), "ERROR: " + r.Error})
			continue
		}
		limit, paused := r.Limit, "-"
		if r.Set {
			limit += " (overridden)"
		}
		if r.Paused {
			if paused = fmt.Sprintf("for %s more: %s", r.State.Paused.Round(time.Second), r.Reason); r.State.Stopped {
				paused = "calls fail: " + r.Reason
			}
		}
		rows = append(rows, []string{named(r.Key), limit, strconv.FormatInt(max(r.Waiting, int64(r.Calls)), 10), fleet.Span(r.Oldest),
			strconv.FormatInt(r.Booked, 10), fleet.Number(r.State.Stored), look.NewCall(r), paused})
	}
	fmt.Fprintln(a.out)
	if err := table(a.out, rows); err != nil {
		return err
	}
	if err := a.holders(look); err != nil {
		return err
	}
	rows = [][]string{{"PROCESS", "HOST", "PID", "LAST HEARTBEAT", "LIMIT", "PROTOCOL", "IF REDIS IS DOWN", "UP"}}
	for i := range look.Processes {
		p := &look.Processes[i]
		rows = append(rows, []string{p.ID, p.Report.Host, strconv.Itoa(p.Report.PID), p.Beat(), p.Limit, p.Protocol(), outages(p), p.Up(time.Now())})
	}
	fmt.Fprintln(a.out)
	return table(a.out, rows)
}

// happened lists what people have changed.
func (a *app) happened(ctx context.Context, n fleet.Name) error {
	events, err := a.fleet.Happened(ctx, n, 5)
	if err != nil || len(events) == 0 {
		return err
	}
	rows := [][]string{{"CHANGED", "KEY", "WHAT", "BY"}}
	for _, e := range events {
		rows = append(rows, []string{e.At.UTC().Format("2 Jan 15:04:05 MST"), named(e.Key), e.What, e.Who})
	}
	fmt.Fprintln(a.out)
	return table(a.out, rows)
}

// outages is the outage policy of a process. Without Redis, a process has no part of slots.
func outages(p *fleet.Process) string {
	if limit, err := reserve.ParseLimit(p.Limit); err == nil && limit.Kind() == reserve.KindSlots && p.Report.Policy == "local" {
		return "no call begins"
	}
	return p.Report.Policy
}

// holders lists the calls that hold slots. A slot is quoted, so that people may paste it behind fleetpace release.
func (a *app) holders(look *fleet.Look) error {
	rows := [][]string{{"SLOT", "KEY", "SLOTS", "HELD FOR", "LEASE ENDS IN", "DOING"}}
	for i := range look.Rows {
		for _, h := range look.Rows[i].State.Holders {
			rows = append(rows, []string{fleet.Quoted(fleet.SlotID(h.Process, h.Number)), named(look.Rows[i].Key), strconv.Itoa(h.Slots),
				time.Since(h.Since).Round(time.Millisecond).String(), cmp.Or(look.Rows[i].Lease(h), "-"), h.Doing})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(a.out)
	return table(a.out, rows)
}

func named(key string) string {
	if key == "" {
		return "-"
	}
	return key
}

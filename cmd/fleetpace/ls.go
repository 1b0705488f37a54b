package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// keysOfLine is the most keys of a limit whose states are read for its line.
const keysOfLine = 8

func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the limits", Long: "Lists the limits. * means that the limit, or the limit of one of its keys, is overridden.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines, err := a.fleet.Lines(cmd.Context(), keysOfLine, nil)
			if err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(lines)
			}
			if len(lines) == 0 {
				fmt.Fprintln(a.out, a.noLimits(cmd.Context()))
				return nil
			}
			return table(a.out, listing(lines, false))
		},
	}
}

func listing(lines []fleet.Line, rates bool) [][]string {
	head := []string{"NAME", "LIMIT", "WAITING", "LONGEST", "BOOKED", "KEYS", "PROCESSES", "PAUSED"}
	if rates {
		head = slices.Insert(head, 2, "CALLS/S")
	}
	rows := [][]string{head}
	for _, l := range lines {
		limit := l.Limit
		if limit == "" {
			limit = "(not used)"
		}
		if l.Set {
			limit += " *"
		}
		paused := "-"
		if l.Paused {
			if paused = fleet.Span(l.PausedFor); l.Stopped {
				paused = "calls fail"
			}
			if l.Reason != "" {
				paused += ": " + l.Reason
			}
		}
		if l.Error != "" {
			paused = "ERROR: " + l.Error
		}
		processes := strconv.Itoa(l.Processes)
		if l.Perhaps > 0 {
			processes = "not known"
		}
		row := []string{l.ID(), limit, strconv.FormatInt(l.Waiting, 10), fleet.Span(l.Oldest), strconv.FormatInt(l.Booked, 10),
			strconv.Itoa(l.Keys), processes, paused}
		if rates {
			row = slices.Insert(row, 2, fleet.Number(l.PerSecond))
		}
		rows = append(rows, row)
	}
	return rows
}

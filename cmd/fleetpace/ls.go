package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// line is how a name stands as a whole.
type line struct {
	Name      string  `json:"name"`
	Group     string  `json:"group,omitempty"`
	Limit     string  `json:"limit"`
	Waiting   int64   `json:"waiting"`
	Oldest    float64 `json:"oldest"` // seconds
	Booked    int64   `json:"booked"`
	Paused    bool    `json:"paused"`              // one of its keys is
	PausedFor float64 `json:"pausedFor,omitempty"` // seconds more
	Reason    string  `json:"reason,omitempty"`
	Set       bool    `json:"set"` // of one of its keys another limit is
	Held      int     `json:"held"`
	Keys      int     `json:"keys"`
	Processes int     `json:"processes"`
	PerSecond float64 `json:"perSecond"` // calls, of late; 0 before two looks
	Error     string  `json:"error,omitempty"`
}

// keysOfLine is of how many keys of a name the states are read for its line.
const keysOfLine = 8

func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the limits", Long: "Lists the limits. A star behind a limit: of it, or of one of its keys, another one was set.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines, err := a.lines(cmd.Context(), nil)
			if err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(lines)
			}
			return table(a.out, listing(lines, false))
		},
	}
}

// lines are those of all names, with what was used per second since another look.
func (a *app) lines(ctx context.Context, rates *fleet.Rates) ([]line, error) {
	names, err := a.fleet.Names(ctx)
	if err != nil {
		return nil, err
	}
	lines := []line{}
	for _, n := range names {
		look, err := a.fleet.Look(ctx, n, keysOfLine)
		if err != nil {
			return nil, err
		}
		lines = append(lines, lineOf(look, rates))
	}
	return lines, nil
}

func lineOf(look *fleet.Look, rates *fleet.Rates) line {
	l := line{Name: look.Name.Name, Group: look.Group, Limit: look.Limit, Keys: len(look.Keys), Processes: look.Alive()}
	for _, k := range look.Keys {
		l.Oldest = max(l.Oldest, k.Oldest)
	}
	for _, row := range look.Rows {
		l.Waiting, l.Booked, l.Held = l.Waiting+row.Waiting, l.Booked+row.Booked, l.Held+row.Held
		l.Set = l.Set || row.Set
		if row.Paused && !l.Paused {
			l.Paused, l.PausedFor, l.Reason = true, row.State.Paused.Seconds(), row.Reason
		}
		if row.Error != "" {
			l.Error = row.Error
		}
		if row.Key == "" && row.Set {
			l.Limit = row.Limit
		}
	}
	l.Waiting = max(l.Waiting, int64(look.Waiting()))
	if rates != nil {
		l.PerSecond = rates.Of(look.Survey)
	}
	return l
}

func listing(lines []line, rates bool) [][]string {
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
			paused = span(l.PausedFor)
			if l.Reason != "" {
				paused += ": " + l.Reason
			}
		}
		if l.Error != "" {
			paused = "ERROR: " + l.Error
		}
		name := fleet.Name{Name: l.Name, Group: l.Group}.String()
		row := []string{name, limit, strconv.FormatInt(l.Waiting, 10), span(l.Oldest), strconv.FormatInt(l.Booked, 10),
			strconv.Itoa(l.Keys), strconv.Itoa(l.Processes), paused}
		if rates {
			row = slices.Insert(row, 2, number(l.PerSecond))
		}
		rows = append(rows, row)
	}
	return rows
}

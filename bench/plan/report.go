package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func printPlan(w io.Writer, p plan, c calibration) error {
	load := p.workload
	fmt.Fprintf(w, "%s calls/s by %d processes on %d limits in %d names; lease %v, round trip %v, %d calls wait\n\n",
		number(load.Rate), load.Processes, load.Limits, load.Names, load.Lease, load.RTT, load.Waiting)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "script\tcalls/s\titems each\tcores in scripts\tcores\t")
	for _, part := range p.Parts {
		if part.Cores == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.4f\t%.4f\t\n", part.Name, number(part.Trips), number(part.Items), part.Script, part.Cores)
	}
	fmt.Fprintf(table, "all\t%s\t\t%.4f\t%.4f\t\n", number(p.ScriptCalls), p.ScriptCores, p.Cores)
	if err := table.Flush(); err != nil {
		return err
	}

	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table)
	fmt.Fprintf(table, "shards\t%d\tthe busiest is %.2f of a core busy, at most %.2f are allowed\n", p.Shards, p.Load, p.terms.Load)
	fmt.Fprintf(table, "memory\t%s\t%s per shard\n", size10(p.MemoryBytes), size10(p.PerShardBytes))
	fmt.Fprintf(table, "cost per month\t%s\tat %s per core and hour, one core per shard\n", number(p.CostPerMonth), number(p.terms.Price))
	fmt.Fprintf(table, "cost per million calls\t%s\t\n", number(p.CostPerMillion))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nmost of it: %s\n", p.Dominant)

	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nassumption\tcores if half\tcores if twice\t")
	for _, f := range p.WhatIf {
		if f.weight(p.Cores) < 0.005 {
			continue // it does not matter
		}
		fmt.Fprintf(table, "%s\t%.4f\t%.4f\t\n", f.Assumption, f.Half, f.Twice)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "\nWARNING: %s\n", warning)
	}
	fmt.Fprintf(w, "\nMeasured with %s on %s, %s. Your cores differ: -calibrate -write FILE, then -calibration FILE.\n", c.Redis, c.CPU, c.Measured)
	return nil
}

// number has three digits or more.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

func size10(bytes float64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", bytes/1e6)
	default:
		return fmt.Sprintf("%.1f kB", bytes/1e3)
	}
}

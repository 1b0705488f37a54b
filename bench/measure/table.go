package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// columns are the figures of each measurement in the table; the JSON lines have all.
var columns = []struct {
	measure string
	fields  []string
}{
	{"speed", []string{"case", "contender", "ns_per_op", "ratio_to_fleetpace", "redis_commands_per_op", "redis_bytes_per_idle_limit", "over_granted", "lost_share", "refused", "utilization", "lateness_ms_p99", "bare_ms_p99"}},
	{"fleet", []string{"scenario", "contender", "limit", "done", "utilization", "refused", "entries_per_task", "lateness_ms_p99", "bare_ms_p99"}},
	{"example", []string{"example", "records", "done", "pages", "requests", "refused", "utilization", "seconds"}},
	{"fault", []string{"fault", "policy", "refused", "lost", "utilization", "recovered_ms"}},
}

var always = []string{"bare_longest_ms", "bare_late_share", "exit_status"}

// printTable prints a table per measurement, of the columns in which there is a figure.
func printTable(w io.Writer, all []line) error {
	for _, c := range columns {
		mine := slices.DeleteFunc(slices.Clone(all), func(l line) bool { return l["measure"] != c.measure })
		if len(mine) == 0 {
			continue
		}
		fields := slices.DeleteFunc(slices.Concat(c.fields, always), func(field string) bool {
			return !slices.ContainsFunc(mine, func(l line) bool { return l[field] != nil })
		})
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "\n%s\n%s\n", c.measure, strings.Join(fields, "\t"))
		for _, l := range mine {
			var cells []string
			for _, field := range fields {
				cells = append(cells, cell(l[field]))
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// cell has four digits of a figure, or all before the point.
func cell(value any) string {
	if value == nil {
		return "-"
	}
	number, ok := value.(json.Number)
	if !ok {
		return fmt.Sprint(value)
	}
	v, err := number.Float64()
	if err != nil {
		return number.String()
	}
	if v >= 1e4 || v <= -1e4 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

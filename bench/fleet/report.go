package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// report prints the figures: at once as JSON, or in the end as a table.
type report struct {
	json  *json.Encoder
	table *tabwriter.Writer
	lines int
}

func newReport(w io.Writer, asJSON bool) *report {
	if asJSON {
		return &report{json: json.NewEncoder(w)}
	}
	return &report{table: tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
}

func (r *report) add(f figure) {
	if r.json != nil {
		_ = r.json.Encode(f)
		return
	}
	if r.lines++; r.lines == 1 {
		fmt.Fprintln(r.table, "contender\tlimit\ttasks\tdone\tseconds\tutilization\trefused\tentries\tlate p50\tlate p99\tbare p99\twait p50\twait p99\t")
	}
	fmt.Fprintf(r.table, "%s\t%s\t%s\t%s\t%.1f\t%.1f %%\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Contender, f.Limit, short(f.Tasks), short(f.Done),
		f.Seconds, 100*f.Utilization, short(f.Refused), text("%.2f", f.EntriesPerTask), text("%.1f ms", f.LatenessP50), text("%.1f ms", f.LatenessP99), text("%.1f ms", f.BareP99),
		text("%.0f ms", f.WaitP50), text("%.0f ms", f.WaitP99))
}

// short has no more digits than it needs; means have two decimals.
func short(x float64) string { return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) }

func text(format string, value *float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf(format, *value)
}

func (r *report) close() {
	if r.table != nil {
		_ = r.table.Flush()
	}
}

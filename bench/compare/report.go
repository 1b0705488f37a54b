package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report prints the records of each case when it is done.
type report struct {
	w     io.Writer
	json  bool
	lines int
}

func (r *report) add(records []*record) error {
	if r.json {
		encoder := json.NewEncoder(r.w)
		for _, record := range records {
			if err := encoder.Encode(record); err != nil {
				return err
			}
		}
		return nil
	}
	if r.lines++; r.lines > 1 {
		fmt.Fprintln(r.w)
	}
	table := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := []string{"case", "contender", "ns/op", "min", "max", "ops/s", "commands/op", "allocs/op", "/ fleetpace"}
	var more []string
	for _, record := range records {
		for _, name := range record.more {
			if !slices.Contains(more, name) {
				more = append(more, name)
			}
		}
	}
	fmt.Fprintln(table, strings.Join(append(header, more...), "\t")+"\t")
	for _, record := range records {
		ns, timed := record.get(nsPerOp)
		fields := []string{record.Case, record.Contender, cell(ns.median, timed), cell(ns.min, timed), cell(ns.max, timed)}
		for _, name := range common[1:] {
			s, ok := record.get(name)
			fields = append(fields, cell(s.median, ok))
		}
		fields = append(fields, cell(record.Ratio, record.Ratio > 0))
		for _, name := range more {
			s, ok := record.get(name)
			fields = append(fields, cell(s.median, ok))
		}
		fmt.Fprintln(table, strings.Join(fields, "\t")+"\t")
	}
	return table.Flush()
}

// cell has three digits, or all before the point.
func cell(v float64, ok bool) string {
	switch {
	case !ok:
		return "-"
	case v == 0:
		return "0"
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(significantTo(v, 3), 'f', -1, 64)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/stall"
)

// report is the summary of a run; with -json it is printed as it is.
type report struct {
	Records int `json:"records"` // in the input
	Done    int `json:"done"`    // in this run and before
	Failed  int `json:"failed"`  // in this run
	Skipped int `json:"skipped"` // done before
	Retried int `json:"retried"`

	// Counted where calls arrive with the demo API, where they leave with
	// another one.
	Requests int `json:"requests"`
	Refused  int `json:"refused"` // answered with 429

	LimitPerSecond float64 `json:"limit_per_second"`
	Seconds        float64 `json:"seconds"`     // from the first to the last request
	Utilization    float64 `json:"utilization"` // (requests - burst) / (limit * seconds)

	// Stalled is the part of the time in which the machine ran nobody; see package stall.
	Stalled float64 `json:"stalled_share"`
}

func newReport(cfg *config, records, skipped int, t tally, s provider.Summary, stalled float64) *report {
	return &report{
		Records:        records,
		Done:           skipped + t.done,
		Failed:         t.failed,
		Skipped:        skipped,
		Retried:        t.retried,
		Requests:       s.Requests,
		Refused:        s.Refused,
		LimitPerSecond: cfg.limit.Rate(),
		Seconds:        round(s.Last.Sub(s.First).Seconds(), 3),
		Utilization:    round(s.Utilization(cfg.limit.Rate(), cfg.limit.MaxBurst()), 4),
		Stalled:        round(stalled, 4),
	}
}

// round keeps some digits after the point: more would be noise.
func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

// print writes the summary for people, to stderr when stdout is for JSON.
func (r *report) print(cfg *config, stdout, stderr io.Writer) error {
	people := stdout
	if cfg.json {
		people = stderr
	}
	where := "as the API saw them"
	if cfg.api != "" {
		where = "as they left"
	}
	text := fmt.Sprintf("%d of %d records done", r.Done, r.Records)
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d of them before", r.Skipped)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf("; %d failed (the file says why)", r.Failed)
	}
	text += fmt.Sprintf("\n%d requests %s, %d of them retries, in %.2f s: %d refused, %.1f %% of %v used\n",
		r.Requests, where, r.Retried, r.Seconds, r.Refused, 100*r.Utilization, cfg.limit)
	if note := stall.Note(r.Stalled); note != "" {
		text += "the machine " + note + "\n"
	}
	text += fmt.Sprintf("results: %s\n", cfg.out)
	if cfg.chart != "" && r.Requests > 0 {
		text += fmt.Sprintf("picture: %s\n", cfg.chart)
	}
	if _, err := io.WriteString(people, text); err != nil {
		return err
	}
	if cfg.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	return nil
}

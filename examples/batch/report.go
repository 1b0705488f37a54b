package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/internal/bare"
	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// report is the summary of a run. With -json it is printed as it is.
type report struct {
	Records int `json:"records"` // in the input
	Done    int `json:"done"`    // in this run and before
	Failed  int `json:"failed"`  // in this run
	Skipped int `json:"skipped"` // in earlier runs
	Retried int `json:"retried"`

	// The demo API counts requests where they arrive. For another API they are counted where
	// they leave.
	Requests int `json:"requests"`
	Refused  int `json:"refused"` // responses with status 429

	LimitPerSecond float64 `json:"limit_per_second"`
	Seconds        float64 `json:"seconds"`     // from the first to the last request
	Utilization    float64 `json:"utilization"` // (requests - burst) / (limit * seconds)

	// With -api llm, Tightest is the limit that is used most. The rate and the
	// utilization above are those of this limit, in its permits.
	Tightest  string        `json:"tightest,omitempty"`
	Limits    []limitReport `json:"limits,omitempty"`
	Estimated int           `json:"tokens_estimated,omitempty"` // by the callers, for calls that were made
	Used      int           `json:"tokens_used,omitempty"`      // according to the responses
	Processes int           `json:"processes,omitempty"`        // processes that made calls

	bare.Figures // measured by a goroutine that only sleeps
}

func newReport(cfg *config, records, skipped int, t tally, s provider.Summary, beside bare.Figures) *report {
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
		Figures:        beside,
	}
}

// missing returns an error if the report of a complete run does not account for each record.
func (r *report) missing() error {
	if accounted := r.Done + r.Failed; accounted != r.Records {
		return fmt.Errorf("%d of %d records are done or failed", accounted, r.Records)
	}
	return nil
}

// limitReport is the part of the report about one of several limits.
type limitReport struct {
	Name  string        `json:"name"`
	Limit reserve.Limit `json:"limit"`
	Used  int           `json:"used"` // permits
	// Utilization is (used - burst) / (rate * seconds).
	Utilization float64 `json:"utilization"`
}

func newLLMReport(cfg *config, records, skipped int, l *lead, limits [2]reserve.Limit, model *example.LLM, beside bare.Figures) *report {
	s := model.Judges[0].Summary()
	r := newReport(cfg, records, skipped, l.tally, s, beside)
	r.Refused = model.Refusals()
	r.Estimated, r.Used, r.Processes = l.estimated, l.used, len(l.workers)
	for i, limit := range limits {
		own := limitReport{Name: llmNames[i], Limit: limit}
		own.Used, own.Utilization = used(model.Judges[i].History(), limit, s.Last.Sub(s.First))
		if i == 0 || own.Utilization > r.Utilization {
			r.Tightest, r.LimitPerSecond, r.Utilization = own.Name, limit.Rate(), own.Utilization
		}
		r.Limits = append(r.Limits, own)
	}
	return r
}

// used returns how many permits the accepted calls used, and the utilization of the limit.
func used(calls []provider.Call, limit reserve.Limit, took time.Duration) (permits int, utilization float64) {
	for _, c := range calls {
		if !c.Refused {
			permits += c.N
		}
	}
	if took > 0 {
		utilization = float64(permits-limit.MaxBurst()) / (limit.Rate() * took.Seconds())
	}
	return permits, round(utilization, 4)
}

// round rounds to some digits after the point: more would be noise.
func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

// print writes the summary for people, to stderr if stdout is for JSON.
func (r *report) print(cfg *config, stdout, stderr io.Writer) error {
	people := stdout
	if cfg.json {
		people = stderr
	}
	where := "as the API saw them"
	if cfg.api != "" && cfg.api != apiLLM {
		where = "as they left"
	}
	text := fmt.Sprintf("%d of %d records done", r.Done, r.Records)
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d of them before", r.Skipped)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf("; %d failed (the file says why)", r.Failed)
	}
	text += fmt.Sprintf("\n%d requests %s, %d of them retries, in %.2f s: %d refused", r.Requests, where, r.Retried, r.Seconds, r.Refused)
	if cfg.api == apiLLM {
		text += fmt.Sprintf("\n%d processes; %d tokens used of %d that were estimated\n", r.Processes, r.Used, r.Estimated)
		for _, l := range r.Limits {
			text += fmt.Sprintf("%-8s %-28v %5.1f %% used\n", l.Name, l.Limit, 100*l.Utilization)
		}
	} else {
		text += fmt.Sprintf(", %.1f %% of %v used\n", 100*r.Utilization, cfg.limit)
	}
	text += r.Text() + "\n"
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

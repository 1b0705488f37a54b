package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/scrape"
)

func (a *app) export() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use: "export", Short: "Serve fleet metrics for Prometheus",
		Long: `Serves metrics of the whole fleet for Prometheus, at /metrics: waiting calls, pauses, slots,
processes. Run one exporter for a fleet. Each process counts its own calls through OpenTelemetry.
Names of limits are labels, their keys are not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serveMetrics(cmd.Context(), listen) },
	}
	c.Flags().StringVar(&listen, "listen", "localhost:9465", "`address` to listen at")
	return c
}

func (a *app) serveMetrics(ctx context.Context, listen string) error {
	provider, handler, err := scrape.New()
	if err != nil {
		return err
	}
	if err := newGauges(provider.Meter("github.com/fleetpace/fleetpace/cmd/fleetpace"), a); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	at, done, err := scrape.Serve(ctx, listen, mux)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.errs, "metrics of the fleet are at http://%s/metrics\n", at)
	return <-done
}

// gauges are the metrics of a fleet, by limit.
type gauges struct {
	app *app
	up  metric.Int64ObservableGauge

	waiting, booked, heldCalls, unclaimed, processes, dead, failing, keys, paused, stopped, mustWait, set, differ, slots, held metric.Int64ObservableGauge
	longest, longestNotHeld, pause, allowed, oldest                                                                            metric.Float64ObservableGauge
}

func newGauges(m metric.Meter, a *app) error {
	g := &gauges{app: a}
	var made []metric.Observable
	var failed error
	whole := func(name, unit, about string) metric.Int64ObservableGauge {
		i, err := m.Int64ObservableGauge("fleetpace.fleet."+name, metric.WithUnit(unit), metric.WithDescription(about))
		if err != nil {
			failed = err
		}
		made = append(made, i)
		return i
	}
	seconds := func(name, unit, about string) metric.Float64ObservableGauge {
		f, err := m.Float64ObservableGauge("fleetpace.fleet."+name, metric.WithUnit(unit), metric.WithDescription(about))
		if err != nil {
			failed = err
		}
		made = append(made, f)
		return f
	}
	g.up = whole("redis.up", "", "1 if Redis answers.")
	g.waiting = whole("queued_calls", "{call}", "Calls waiting for their turns.")
	g.longest = seconds("queued_calls.longest", "s", "The longest time that a waiting call has waited.")
	g.longestNotHeld = seconds("queued_calls.longest_not_held", "s", "The same, for calls that no pause, no used-up quota and no other limit holds back.")
	g.booked = whole("booked_calls", "{call}", "Calls booked for later: rescheduled tasks.")
	g.heldCalls = whole("held_calls", "{call}", "Waiting or booked calls that a pause, a used-up quota or another limit holds back.")
	g.unclaimed = whole("unclaimed_calls", "{call}", "Calls that could be made, but no live process makes them.")
	g.processes = whole("processes", "{process}", "Live processes.")
	g.dead = whole("processes.dead", "{process}", "Processes that died in the last ten minutes.")
	g.failing = whole("processes.failing", "{process}", "Live processes whose calls fail, as a limit of another kind or version is in force.")
	g.keys = whole("keys", "{key}", "Keys in use.")
	g.paused = whole("paused", "", "1 if the limit or one of its keys is paused or stopped.")
	g.stopped = whole("stopped", "", "1 if the limit or one of its keys is stopped: an account or quota is used up, and calls fail.")
	g.mustWait = whole("must_wait", "", "1 if the limit or one of its keys is paused, or calls wait for the next window of a quota; also if calls need another limit that is paused or used up.")
	g.pause = seconds("pause.remaining", "s", "How long the pause or stop still lasts.")
	g.set = whole("set", "", "1 if the configured limit is overridden.")
	g.differ = whole("differ", "", "1 if processes are configured with different limits.")
	g.allowed = seconds("allowed", "{permit}/s", "Permits per second of the limit in force: the sum over the keys with waiting calls, or one key.")
	g.slots = whole("slots", "{slot}", "Slots of the limit.")
	g.held = whole("slots.held", "{slot}", "Slots that calls hold.")
	g.oldest = seconds("slots.oldest", "s", "The longest time that a call has held its slots.")
	if failed != nil {
		return failed
	}
	_, err := m.RegisterCallback(g.observe, made...)
	return err
}

// keysOfGauge is the most keys of a limit whose states are read.
const keysOfGauge = 50

// observe reads the state of the fleet and reports it. If Redis does not answer, it reports that.
func (g *gauges) observe(ctx context.Context, o metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lines, err := g.app.fleet.Lines(ctx, keysOfGauge, nil)
	up := int64(1)
	if err != nil {
		up = 0
		fmt.Fprintln(g.app.errs, "fleetpace: Redis does not answer:", err)
	}
	o.ObserveInt64(g.up, up)
	for i := range lines {
		g.tell(o, &lines[i])
	}
	return nil
}

// tell reports the state of a limit.
func (g *gauges) tell(o metric.Observer, l *fleet.Line) {
	of := metric.WithAttributes(attribute.String("fleetpace.limit", l.ID()))
	for _, n := range []struct {
		gauge metric.Int64ObservableGauge
		value int64
	}{
		{g.waiting, l.Waiting}, {g.booked, l.Booked}, {g.heldCalls, l.HeldCalls}, {g.unclaimed, l.Unclaimed}, {g.processes, int64(l.Processes)}, {g.dead, int64(l.Dead)}, {g.failing, int64(l.Failing)}, {g.keys, int64(l.Keys)},
		{g.paused, flag(l.Paused)}, {g.stopped, flag(l.Stopped)}, {g.mustWait, flag(l.MustWait)}, {g.set, flag(l.Set)}, {g.differ, flag(l.Differ)},
	} {
		o.ObserveInt64(n.gauge, n.value, of)
	}
	o.ObserveFloat64(g.longest, l.Oldest, of)
	o.ObserveFloat64(g.longestNotHeld, l.OldestNotHeld, of)
	o.ObserveFloat64(g.pause, l.PausedFor, of)
	if l.Limit == "" { // no process uses it, so what it allows is unknown
		return
	}
	if l.Slots == 0 {
		o.ObserveFloat64(g.allowed, l.Allowed, of)
		return
	}
	o.ObserveInt64(g.slots, l.Slots, of)
	o.ObserveInt64(g.held, int64(l.Held), of)
	o.ObserveFloat64(g.oldest, l.HeldFor, of)
}

func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

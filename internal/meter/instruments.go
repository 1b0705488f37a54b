package meter

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// scope is the name of the meter.
const scope = "github.com/fleetpace/fleetpace"

// instruments are named like the instruments of ASP.NET Core's rate limiting where they are the same:
// https://opentelemetry.io/docs/specs/semconv/dotnet/dotnet-aspnetcore-metrics/
type instruments struct {
	inQueue, delay, held, ask, after metric.Float64Histogram
	asked                            metric.Int64Histogram
	answers                          metric.Int64Counter

	calls                  metric.Int64ObservableCounter
	numbers                [numbers]metric.Int64ObservableCounter
	waiting, slots, active metric.Int64ObservableUpDownCounter
}

var (
	in   instruments
	once sync.Once
)

// Buckets, the first two in seconds.
var (
	waits  = []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	trips  = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	counts = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
)

// begin makes the instruments. OpenTelemetry connects them to a provider that is set later.
func begin() { once.Do(in.make) }

func (in *instruments) make() {
	m := otel.Meter(scope)
	seconds := func(name, about string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(buckets...))
		handle(err)
		return h
	}
	count := func(name, unit, about string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		handle(err)
		return c
	}
	standing := func(name, unit, about string) metric.Int64ObservableUpDownCounter {
		c, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		handle(err)
		return c
	}
	in.inQueue = seconds("fleetpace.call.time_in_queue", "How long calls waited that did not have their turns at once.", waits)
	in.delay = seconds("fleetpace.call.delay", "How long after its turn a call that waited was let through.", trips)
	in.held = seconds("fleetpace.slot.duration", "How long calls held their slots.", waits)
	in.ask = seconds("fleetpace.ask.duration", "How long script calls took that ask Redis for turns.", trips)
	in.after = seconds("fleetpace.provider.retry_after", "How long providers asked to stay away.", waits)
	var err error
	in.answers, err = m.Int64Counter("fleetpace.provider.responses", metric.WithUnit("{response}"),
		metric.WithDescription("Answers of providers, by status, to calls that needed the limit."))
	handle(err)
	in.asked, err = m.Int64Histogram("fleetpace.ask.calls", metric.WithUnit("{call}"),
		metric.WithDescription("How many calls shared a script call."), metric.WithExplicitBucketBoundaries(counts...))
	handle(err)
	in.calls = count("fleetpace.calls", "{call}", "Calls that ended, by how: at_once and waited were let through.")
	in.numbers = [numbers]metric.Int64ObservableCounter{
		Further:  count("fleetpace.permits", "{permit}", "Permits that calls have used, or reserved if they are settled later."),
		Alone:    count("fleetpace.outage.calls", "{call}", "Calls that were let through while Redis was away."),
		Outages:  count("fleetpace.outages", "{outage}", "How often Redis went away while calls needed the limit."),
		Lapsed:   count("fleetpace.turns.lapsed", "{turn}", "Turns that were over when their calls came to use them."),
		Unused:   count("fleetpace.turns.unused", "{turn}", "Turns that calls were let through with, and did not use then."),
		Voided:   count("fleetpace.turns.voided", "{turn}", "Turns that were taken back before they were used, by a pause for example."),
		Pauses:   count("fleetpace.pauses", "{pause}", "Pauses that this process has made."),
		Stops:    count("fleetpace.stops", "{stop}", "Hard stops that this process has made."),
		Changes:  count("fleetpace.limit.changes", "{change}", "Limits that this process has set or reset."),
		Reserved: count("fleetpace.settled.reserved", "{permit}", "Permits that settled calls had reserved."),
		Settled:  count("fleetpace.settled.used", "{permit}", "Permits that settled calls have used in fact."),
	}
	in.waiting = standing("fleetpace.queued_calls", "{call}", "Calls that wait for their turns.")
	in.slots = standing("fleetpace.active_slots", "{slot}", "Slots that calls hold.")
	in.active = standing("fleetpace.active_outages", "{outage}", "1 while Redis is away, by the policy that calls follow.")
	observed := []metric.Observable{in.calls, in.waiting, in.slots, in.active}
	for _, n := range in.numbers {
		observed = append(observed, n)
	}
	_, err = m.RegisterCallback(in.observe, observed...)
	handle(err)
}

// handle hands an error to OpenTelemetry's error handler.
func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// observe reports all numbers to a collector.
func (in *instruments) observe(_ context.Context, o metric.Observer) error {
	now := standing()
	limits.Lock()
	defer limits.Unlock()
	for _, l := range limits.byName {
		for r := range results {
			o.ObserveInt64(in.calls, l.results[r].Load(), l.byResult[r]...)
		}
		for n := range numbers {
			value := l.numbers[n].Load()
			if n == Further {
				value += l.results[AtOnce].Load() + l.results[Waited].Load()
			}
			o.ObserveInt64(in.numbers[n], value, l.all...)
		}
		if s := now[l]; s != nil {
			o.ObserveInt64(in.waiting, s.Waiting, l.all...)
			o.ObserveInt64(in.slots, s.Slots, l.all...)
			for policy, away := range s.away {
				o.ObserveInt64(in.active, away, metric.WithAttributes(LimitKey.String(l.name), policyKey.String(policy)))
			}
		}
	}
	return nil
}

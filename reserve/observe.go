package reserve

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/observe"
)

// used reports a turn that a call uses now to a test that records turns. If the call has waited, it adds the
// wait to the caller's span.
func used(ctx context.Context, need *engine.Need, t *engine.Turn, limits ...*Limiter) {
	if observe.On() {
		observed(need, t, false, limits)
	}
	if t.Waited == 0 {
		return
	}
	heldBy := -1
	if t.Placed {
		heldBy = t.Slowest
	}
	event(ctx, need, meter.Waited, t.Waited, heldBy, limits)
}

// unused counts a turn whose call was not made, and reports it to a test that records turns.
func unused(need *engine.Need, t *engine.Turn, limits ...*Limiter) {
	need.Unused()
	if observe.On() {
		observed(need, t, true, limits)
	}
}

func observed(need *engine.Need, t *engine.Turn, unused bool, limits []*Limiter) {
	for i, l := range limits {
		part := need.Part
		if i > 0 {
			part = need.More[i-1]
		}
		turn := observe.Turn{
			Prefix: l.core.cfg.Prefix, Limit: l.String(), Cost: part.Cost, ID: need.ID,
			Given: t.Used, Late: t.Used.Sub(t.Due), Slack: t.Until.Sub(t.Due), Unused: unused,
		}
		if i == 0 {
			turn.Pace = t.Pace
		}
		if t.Process != "" { // Redis knows of it
			turn.Told, turn.Turn, turn.Early = time.UnixMicro(t.Given), time.UnixMicro(t.Moment), t.Early
		}
		observe.Report(turn)
	}
}

// ended counts a call that was not let through, and adds it to the caller's span, but not as an
// error.
func ended(ctx context.Context, need *engine.Need, waited time.Duration, err error, limits ...*Limiter) {
	result, heldBy := resultOf(err), -1
	need.Ended(result, waited)
	var miss *missed
	if errors.As(err, &miss) {
		heldBy = miss.slowest
	}
	event(ctx, need, result, waited, heldBy, limits)
}

// event adds the result of a call to the span of a context, if that is recorded. heldBy is the
// index of a limit; -1: not known.
func event(ctx context.Context, need *engine.Need, result meter.Result, waited time.Duration, heldBy int, limits []*Limiter) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	names, costs := make([]string, len(limits)), []int64{need.Cost}
	for i, l := range limits {
		names[i] = l.String()
	}
	for _, p := range need.More {
		costs = append(costs, p.Cost)
	}
	attributes := []attribute.KeyValue{
		attribute.StringSlice("fleetpace.limits", names), attribute.Int64Slice("fleetpace.costs", costs),
		attribute.String("fleetpace.result", result.String()), attribute.Float64("fleetpace.waited", waited.Seconds()),
	}
	if heldBy >= 0 {
		attributes = append(attributes, attribute.String("fleetpace.held_by", names[heldBy]))
	}
	span.AddEvent("fleetpace.wait", trace.WithAttributes(attributes...))
}

// resultOf returns the result of a call with this error.
func resultOf(err error) meter.Result {
	var later *engine.NotNow
	switch {
	case errors.As(err, &later):
		return meter.NotNow
	case errors.Is(err, ErrWouldMissDeadline):
		return meter.MissedDeadline
	case errors.Is(err, ErrClosed):
		return meter.Closed
	case errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return meter.GivenUp
	case errors.Is(err, ErrUnavailable):
		return meter.Unavailable
	default:
		return meter.Failed
	}
}

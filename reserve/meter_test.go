package reserve_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fleetpace/fleetpace/reserve"
)

// collector is what OpenTelemetry hears of this test's process.
var collector = sync.OnceValue(func() *sdk.ManualReader {
	r := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(r)))
	return r
})

// figures are sums, and of histograms counts, by name, limit and result.
type figures map[string]float64

func collect(t testing.TB) figures {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, collector().Collect(context.Background(), &all))
	f := figures{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					f[name(t, m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					f[name(t, m.Name, p.Attributes)] = float64(p.Count)
					f[name(t, m.Name+" sum", p.Attributes)] = p.Sum
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					f[name(t, m.Name, p.Attributes)] = float64(p.Sum)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return f
}

// name is a metric with its attributes, none of which may be a key.
func name(t testing.TB, metric string, set attribute.Set) string {
	text := metric
	for _, kv := range set.ToSlice() {
		assert.Contains(t, []attribute.Key{"fleetpace.limit", "fleetpace.result", "fleetpace.policy", "error.type"}, kv.Key)
		assert.NotContains(t, kv.Value.String(), "key-of-somebody", "of %s", metric)
		text += " " + kv.Value.String()
	}
	return text
}

// less is what came since.
func (f figures) less(before figures) figures {
	d := figures{}
	for k, v := range f {
		if v != before[k] {
			d[k] = v - before[k]
		}
	}
	return d
}

// Each call counts once, as what became of it.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Name: "meter", Limit: reserve.PerSecond(10)})
		mine := l.For("key-of-somebody")
		ctx := t.Context()
		step := func(what string, want figures, do func()) {
			t.Helper()
			before := collect(t)
			do()
			synctest.Wait()
			got := collect(t).less(before)
			for k := range got {
				if _, told := want[k]; !told && strings.Contains(k, " meter") {
					assert.Fail(t, what, "also %s: %v", k, got[k])
				}
			}
			for k, v := range want {
				assert.InDelta(t, v, got[k], 0.011, "%s: %s", what, k)
			}
		}
		require.NoError(t, mine.Wait(ctx))
		time.Sleep(time.Second)

		step("at once", figures{"fleetpace.calls meter at_once": 1, "fleetpace.permits meter": 1}, func() {
			require.NoError(t, mine.Wait(ctx))
		})
		step("waited", figures{
			"fleetpace.calls meter waited": 1, "fleetpace.permits meter": 1, "fleetpace.call.delay meter": 1, "fleetpace.call.delay sum meter": 0,
			"fleetpace.call.time_in_queue meter waited": 1, "fleetpace.call.time_in_queue sum meter waited": 0.1,
		}, func() { require.NoError(t, mine.Wait(ctx)) })
		step("not now", figures{"fleetpace.calls meter not_now": 1}, func() { require.False(t, allowed(t, mine, 1)) })
		step("missed its deadline", figures{"fleetpace.calls meter missed_deadline": 1}, func() {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, mine.Wait(short), reserve.ErrWouldMissDeadline)
		})
		step("given up", figures{
			"fleetpace.calls meter given_up":              1,
			"fleetpace.call.time_in_queue meter given_up": 1, "fleetpace.call.time_in_queue sum meter given_up": 0.03,
		}, func() {
			left, cancel := context.WithCancel(ctx)
			time.AfterFunc(30*time.Millisecond, cancel)
			require.ErrorIs(t, mine.Wait(left), context.Canceled)
		})
		time.Sleep(time.Second)
		require.NoError(t, mine.Wait(ctx))
		step("cancelled", figures{"fleetpace.calls meter given_up": 1}, func() {
			r, err := mine.Reserve(ctx)
			require.NoError(t, err)
			require.NoError(t, r.Cancel(ctx))
			require.NoError(t, r.Cancel(ctx))
		})
		var waiting sync.WaitGroup
		step("waiting", figures{"fleetpace.queued_calls meter": 3, "fleetpace.pauses meter": 1}, func() {
			require.NoError(t, l.Pause(ctx, time.Hour, "test")) // of another key
			for range 3 {
				waiting.Go(func() { _ = l.Wait(ctx) })
			}
			time.Sleep(5 * time.Second)
		})
		step("closed", figures{"fleetpace.calls meter closed": 3}, func() {
			require.NoError(t, l.Close())
			waiting.Wait()
		})
	})
}

// A call that was let through and not made in time has another turn: the calls that were made are
// those that were let through, less the turns that were not used.
func TestMetricsOfAnUnusedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).with(reserve.Config{Name: "unused", Limit: reserve.PerSecond(1)})
		before := collect(t)
		r, err := l.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, r.Wait(t.Context()), "its call was not made in time")
		synctest.Wait()
		got := collect(t).less(before)
		require.InDelta(t, 2, got["fleetpace.calls unused at_once"]+got["fleetpace.calls unused waited"], 0)
		require.InDelta(t, 1, got["fleetpace.turns.unused unused"], 0)
	})
}

// What moves a limit, and what happens to turns, is counted, too.
func TestMetricsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx := t.Context()
		l := b.with(reserve.Config{Name: "moves", Limit: reserve.PerSecond(10)})
		before := collect(t)
		require.NoError(t, l.Pause(ctx, time.Second, "test"))
		require.NoError(t, l.SetLimit(ctx, reserve.PerSecond(20), 0))
		require.NoError(t, l.ResetLimit(ctx))
		require.Error(t, l.SetLimit(ctx, reserve.Quota(5, reserve.CalendarDay), 0))
		got := collect(t).less(before)
		assert.Equal(t, 1., got["fleetpace.pauses moves"])
		assert.Equal(t, 2., got["fleetpace.limit.changes moves"])
	})
}

// A settled call counts with what it had reserved and what it used, also if it is settled several times.
func TestMetricsOfSettledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).with(reserve.Config{Name: "tokens", Limit: reserve.PerSecond(10).Burst(100), Settles: true})
		both, err := reserve.All(l)
		require.NoError(t, err)
		before := collect(t)
		for _, uses := range [][]int{{-1}, {30, 30, 35}, {50}} { // of one call each
			r, err := l.Acquire(t.Context(), 40)
			require.NoError(t, err)
			for _, used := range uses {
				require.NoError(t, r.Settle(t.Context(), used))
			}
		}
		r, err := l.Acquire(t.Context(), 40)
		require.NoError(t, err)
		require.NoError(t, both.SettleCall(t.Context(), r.CallID(), []int{40}, []int{20}))
		got := collect(t).less(before)
		assert.Equal(t, 160., got["fleetpace.permits tokens"])
		assert.Equal(t, 120., got["fleetpace.settled.reserved tokens"])
		assert.Equal(t, 105., got["fleetpace.settled.used tokens"])
	})
}

// While Redis is away that is told, and so are the calls that go on without it.
func TestMetricsOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx := t.Context()
		l := b.with(reserve.Config{Name: "away", Limit: reserve.PerSecond(10)})
		require.NoError(t, l.Wait(ctx))
		b.mini.SetError(loading)
		require.NoError(t, l.Wait(ctx))
		require.NoError(t, l.Wait(ctx))
		got := collect(t)
		assert.Equal(t, 1., got["fleetpace.outages away"])
		assert.Equal(t, 1., got["fleetpace.active_outages away local"])
		assert.GreaterOrEqual(t, got["fleetpace.outage.calls away"], 1.)
		b.mini.SetError("")
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Wait(ctx))
		got = collect(t)
		assert.Equal(t, 1., got["fleetpace.outages away"])
		assert.Zero(t, got["fleetpace.active_outages away local"])
	})
}

// A call of several limits counts at each of them, and slots are told while they are held.
func TestMetricsOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx := t.Context()
		client := b.client()
		calls := b.on(client, reserve.Config{Name: "calls", Group: "several", Limit: reserve.PerSecond(10)})
		slots := b.on(client, reserve.Config{Name: "slots", Group: "several", Limit: reserve.Concurrent(2)})
		held, err := joint(t, calls.For("key-of-somebody"), slots).Acquire(ctx)
		require.NoError(t, err)
		got := collect(t)
		assert.Equal(t, 1., got["fleetpace.calls several/calls at_once"])
		assert.Equal(t, 1., got["fleetpace.calls several/slots at_once"])
		assert.Equal(t, 1., got["fleetpace.active_slots several/slots"])
		time.Sleep(3 * time.Second)
		held.Release()
		held.Release()
		got = collect(t)
		assert.Zero(t, got["fleetpace.active_slots several/slots"])
		assert.Equal(t, 1., got["fleetpace.slot.duration several/slots"])
		assert.InDelta(t, 3, got["fleetpace.slot.duration sum several/slots"], 0.01)
	})
}

// A wait is an event of the caller's span; a call that has its turn at once is none.
func TestWaitsAreEventsOfTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		seen := tracetest.NewSpanRecorder()
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(seen)).Tracer("test")
		limits := b.group(reserve.PerSecond(10).Burst(5), reserve.PerSecond(1).Burst(5))
		both := joint(t, limits[0], limits[1].For("key-of-somebody"))
		ctx, span := tracer.Start(t.Context(), "call")
		require.NoError(t, both.Wait(ctx, 1, 5))
		time.Sleep(time.Second)
		require.NoError(t, both.Wait(ctx, 3, 2))
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.Error(t, both.Wait(short, 1, 5))
		span.End()

		events := seen.Ended()[0].Events()
		require.Len(t, events, 2)
		var text []string
		for _, e := range events {
			require.Equal(t, "fleetpace.wait", e.Name)
			line := ""
			for _, kv := range e.Attributes {
				if kv.Key == "fleetpace.waited" {
					kv.Value = attribute.Float64Value(float64(int(kv.Value.AsFloat64()*10+0.5)) / 10)
				}
				line += fmt.Sprintf("%s=%s ", kv.Key, kv.Value.String())
			}
			text = append(text, line)
		}
		assert.Equal(t, `fleetpace.limits=["limit-0","limit-1/key-of-somebody"] fleetpace.costs=[3,2] fleetpace.result=waited fleetpace.waited=1 fleetpace.held_by=limit-1/key-of-somebody `, text[0])
		assert.Contains(t, text[1], "fleetpace.result=missed_deadline")
		assert.Empty(t, seen.Ended()[0].Status().Description, "waiting is no error")
	})
}

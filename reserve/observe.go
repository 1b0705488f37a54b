package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
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

// hear logs what happened elsewhere in the fleet.
func (s *shared) hear(e engine.Event) {
	log := s.first.Logger
	switch e.What {
	case engine.WentAway:
		s.wentAway(e)
	case engine.CameBack:
		log.Info("fleetpace: Redis reachable again; the fleet shares the limit again",
			"limit", s.name, "outage", e.Took.Round(time.Millisecond))
	case engine.Outlasted:
		log.Warn("fleetpace: outage over; permits used without Redis were charged to the limit", "limit", e.Limit.String(), "permits", e.N,
			"outage", e.Took.Round(time.Millisecond), "policy", string(s.first.Outage.Policy))
	case engine.Planning:
		s.replan(e.Limits)
	case engine.Follows:
		s.follows(e)
	case engine.Rules:
		s.differ(e.Limit.Name, e.Text)
	case engine.Unfit:
		s.unfit(e.Limit.Name, e.Text, e.N)
	case engine.Mixed:
		log.Info("fleetpace: processes of another version share the limits; what only the newest version has is off while others run",
			"limit", s.name, "lowest_protocol", e.N, "own_protocol", scripts.Protocol)
	case engine.Moved:
		if !log.Enabled(s.life, slog.LevelInfo) || e.Limit.Plans && s.looking.Load() >= mostLooking {
			return
		}
		s.looking.Add(1)
		s.busy.Go(func() {
			defer s.looking.Add(-1)
			s.moved(e.Limit, e.Text)
		})
	}
}

// differing is a limit in force that differs from this process's configured limit.
type differing struct {
	ruling string
	at     time.Time
}

// tellAgain is how long the same difference is not logged again. Idle processes withdraw their
// limits, and bring them again with the next call.
const tellAgain = 10 * time.Minute

// effects says what calls do under each policy.
var effects = map[Policy]string{
	PolicyLocal: "continue at this process's part of the rate",
	PolicyWait:  "wait until Redis answers",
	PolicyFail:  "fail with ErrUnavailable",
	PolicyOpen:  "continue without a limit",
}

// wentAway logs that Redis is unreachable. If this process has never reached it, for example because
// its address is wrong, wentAway logs without a Logger, too. Otherwise nothing would show that the
// fleet has no common limit.
func (s *shared) wentAway(e engine.Event) {
	policy := s.first.Outage.Policy
	if e.Never && s.first.Logger == noLogger {
		s.strange.Do(func() {
			slog.Default().Warn("fleetpace: never connected to Redis since the start; this process is NOT sharing its limit."+
				" Check the address and the credentials. Set Config.Logger to log more",
				"limit", s.name, "policy", string(policy), "calls", effects[policy], "error", e.Err)
		})
	}
	s.first.Logger.Warn("fleetpace: Redis unreachable; the outage policy is in effect, and the log will say when it ends",
		"limit", s.name, "policy", string(policy), "calls", effects[policy], "error", e.Err)
}

// isOther notes the limit in force under a name, and reports whether it is another one than was noted before.
func (s *shared) isOther(name *wire.Name, ruling string) bool {
	s.differing.Lock()
	defer s.differing.Unlock()
	of, now := name.Keys[0]+" "+name.Limit, time.Now()
	last := s.differs[of]
	s.differs[of] = differing{ruling, now}
	return last.ruling != ruling || now.Sub(last.at) >= tellAgain
}

// differ logs that the limit in force differs from this process's configured limit, once per
// change. The difference slows the process down, or defeats a deployment, so it is logged without a
// Logger, too.
func (s *shared) differ(name *wire.Name, ruling string) {
	if ruling == name.Limit || !s.isOther(name, ruling) {
		return
	}
	loud(s.first.Logger).Warn("fleetpace: processes are configured with different limits; the slowest is in force. This is normal during a deploy; otherwise deploy one limit everywhere",
		"limit", name.Text, "own", name.Limit, "in_force", ruling)
}

// unfit logs once that a limit of another kind is in force, so calls of this process fail. The same
// holds if processes of a protocol use the name beside which this process cannot work.
func (s *shared) unfit(name *wire.Name, ruling string, protocol int) {
	if protocol > 0 {
		ruling = fmt.Sprintf("protocol %d", protocol)
	}
	if !s.isOther(name, ruling) {
		return
	}
	if protocol > 0 {
		loud(s.first.Logger).Error("fleetpace: calls of this process fail, because processes of another version of fleetpace use the limit, and the two versions cannot share it; the error of the calls says what to do",
			"limit", name.Text, "their_protocol", protocol, "own_protocol", scripts.Protocol, "see", "fleetpace show "+name.Text)
		return
	}
	loud(s.first.Logger).Error("fleetpace: calls of this process fail, because a limit of another kind is in force under the same name; use one kind in all processes, or Config.LimitOf if only some keys have another; two limits of an API need two names",
		"limit", name.Text, "own", name.Limit, "in_force", ruling, "see", "fleetpace show "+name.Text)
}

// loud returns the Logger for lines that must not be missed: slog.Default() without a Logger.
func loud(of *slog.Logger) *slog.Logger {
	if of == noLogger {
		return slog.Default()
	}
	return of
}

// mostLooking is how many limits with plans are looked at together: many plans may change at the same time.
const mostLooking = 16

// moved logs the state of a limit that another process has paused or overridden.
func (s *shared) moved(l *wire.Limit, what string) {
	states, err := s.process.Inspect(s.life, []*wire.Limit{l})
	if err != nil {
		return
	}
	limit := inGroup(s.first.Group, l.String())
	switch st := &states[0]; {
	case what == "resumed":
		s.first.Logger.Info("fleetpace: limit resumed by another process", "limit", limit)
	case what == "paused" && wire.StoppedOf(st.Reason) != nil:
		stop := wire.StoppedOf(st.Reason)
		s.first.Logger.Warn("fleetpace: limit stopped by another process", "limit", limit, "undo", undoStop(s.first.Group, l, stop.Spread),
			"until", untilText(stop.Until), "reason", stop.Reason)
	case what == "paused":
		s.first.Logger.Info("fleetpace: limit paused by another process", "limit", limit, "undo", "fleetpace resume "+limit,
			"pause", st.Paused.Round(time.Millisecond), "reason", st.Reason)
	case st.Set:
		s.first.Logger.Info("fleetpace: limit overridden by another process", "limit", limit, "undo", "fleetpace reset "+limit,
			"in_force", inForceText(l, st), "until", setFor(st.SetFor))
	case l.Plans: // it has another plan
	default:
		s.first.Logger.Info("fleetpace: a configured limit of the processes is in force now, without an override", "limit", limit, "in_force", inForceText(l, st))
	}
}

// setFor says when an override ends: in d, or only when it is reset.
func setFor(d time.Duration) string {
	if d <= 0 {
		return "reset"
	}
	return "in " + d.Round(time.Millisecond).String()
}

// inForceText returns the limit that a state contains, as text.
func inForceText(l *wire.Limit, st *wire.State) string {
	own, err := ParseLimit(l.Name.Limit)
	if err != nil {
		return l.Name.Limit
	}
	return own.with(st.A, st.B).String()
}

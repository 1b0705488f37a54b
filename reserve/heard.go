package reserve

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

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

// differ logs that the limit in force differs from this process's configured limit, once per
// change. The difference slows the process down, or defeats a deployment, so it is logged without a
// Logger, too.
func (s *shared) differ(name *wire.Name, ruling string) {
	s.differing.Lock()
	defer s.differing.Unlock()
	of, now := name.Keys[0]+" "+name.Limit, time.Now()
	last := s.differs[of]
	if ruling == name.Limit {
		return
	}
	s.differs[of] = differing{ruling, now}
	if last.ruling == ruling && now.Sub(last.at) < tellAgain {
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
	s.differing.Lock()
	defer s.differing.Unlock()
	of, now := name.Keys[0]+" "+name.Limit, time.Now()
	last := s.differs[of]
	s.differs[of] = differing{ruling, now}
	if last.ruling == ruling && now.Sub(last.at) < tellAgain {
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

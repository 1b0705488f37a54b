package reserve

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A Policy says what calls do while Redis is unreachable.
type Policy string

// The policies. If Redis does not answer, the request of a call is first retried, in such a way
// that the call never takes two turns. Once the circuit breaker is open, the policy decides: see
// [Outage].
const (
	// PolicyLocal lets calls through in order, evenly spaced, at this process's part of the fleet's
	// rate. Calls that need a slot wait. It is the default.
	PolicyLocal Policy = "local"
	// PolicyWait lets calls wait until Redis answers or their context ends.
	PolicyWait Policy = "wait"
	// PolicyFail fails calls at once with [ErrUnavailable].
	PolicyFail Policy = "fail"
	// PolicyOpen lets calls through at once, without any limit.
	PolicyOpen Policy = "open"
)

var policies = []Policy{PolicyLocal, PolicyWait, PolicyFail, PolicyOpen}

// ParsePolicy reads the name of a policy: local, wait, fail or open. The error is an [ErrInvalid].
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(policies, p) {
		return p, nil
	}
	return "", fmt.Errorf("reserve: %w", invalid("policy", "must be local, wait, fail or open, got %q", name))
}

// MarshalText returns the name of the policy. It never fails.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText is [ParsePolicy] for configuration files and flag.TextVar.
func (p *Policy) UnmarshalText(name []byte) (err error) {
	*p, err = ParsePolicy(string(name))
	return err
}

// Outage says when Redis counts as unreachable and what calls do then. The zero Outage is the
// default.
//
// If a process has never reached Redis, for example because the address is wrong, that is an
// outage, too. It is logged even without a [Config.Logger]. In three cases calls fail, and there is
// no outage: the client was closed, Redis has never let it in, or Redis is set to
// lua-replicate-commands no.
//
// Turns that were granted before the outage are used: no policy revokes them or adds to them. When
// Redis answers again, each process reports the permits that it used without Redis, as far as the
// API can have accepted those calls. The limit continues a second later, with an empty bucket or
// with that much less.
type Outage struct {
	// Policy decides what calls do. Default [PolicyLocal].
	//
	// If a process alone is cut off from Redis, it cannot know that the others are not. Under
	// PolicyLocal it uses its part, on top of the whole rate that the others use. If the limit must
	// always hold, use PolicyWait or PolicyFail.
	Policy Policy

	// Safety is the part of the rate that all processes together use under PolicyLocal, above 0 and
	// at most 1. Default 0.9. The part of each process is Safety divided by the number of live
	// processes in the last reply of Redis.
	Safety float64

	// FallbackFraction is the part of the rate that this process uses under PolicyLocal if it never learned
	// from Redis how many processes there are, above 0 and at most 1. Default 0.1.
	FallbackFraction float64

	// Share is the earlier name of FallbackFraction.
	//
	// Deprecated: use FallbackFraction.
	Share float64

	// Failures is how many failures in a row, of any calls of the Limiter or its Group, open the circuit
	// breaker. Failures within 200 ms count as one. Default 3. A failure takes as long as the
	// client's timeouts, so set short ones: a ReadTimeout of 500 ms is plenty.
	Failures int

	// Probe is the average time from the start of one attempt to reach Redis to the start of the
	// next, once the breaker is open. In each process it is up to half of it shorter or longer.
	// From 1 ms to one minute; default 500 ms.
	Probe time.Duration
}

func (o Outage) withDefaults() Outage {
	if o.Policy == "" {
		o.Policy = PolicyLocal
	}
	if o.Safety == 0 {
		o.Safety = 0.9
	}
	o.FallbackFraction = cmp.Or(o.FallbackFraction, o.Share, 0.1)
	if o.Failures == 0 {
		o.Failures = 3
	}
	if o.Probe == 0 {
		o.Probe = 500 * time.Millisecond
	}
	return o
}

func (o Outage) validate() error {
	if !slices.Contains(policies, o.Policy) {
		return invalid("Config.Outage.Policy", "must be local, wait, fail or open, got %q", string(o.Policy))
	}
	for _, f := range []struct {
		field string
		value float64
	}{{"Safety", o.Safety}, {"FallbackFraction", o.FallbackFraction}} {
		if math.IsNaN(f.value) || f.value <= 0 || f.value > 1 {
			return invalid("Config.Outage."+f.field, "must be above 0 and at most 1, got %v", f.value)
		}
	}
	if o.Failures < 1 {
		return invalid("Config.Outage.Failures", "must be at least 1, got %d", o.Failures)
	}
	if o.Probe < time.Millisecond || o.Probe > time.Minute {
		return invalid("Config.Outage.Probe", "must be from 1ms to 1m, got %v", o.Probe)
	}
	return nil
}

// away maps the policies to those of the engine.
var away = map[Policy]engine.Away{
	PolicyLocal: engine.AwayLocal, PolicyWait: engine.AwayWait, PolicyFail: engine.AwayFail, PolicyOpen: engine.AwayOpen,
}

// share returns this process's part of a limit during an outage: permits per second, and the burst.
func (o Outage) share(l *wire.Limit) (perSecond float64, burst int) {
	part := o.FallbackFraction
	if alive := l.Name.Alive.Load(); alive > 0 {
		counted := o.Safety / float64(alive)
		if part = min(part, counted); !l.Name.Fewer.Load() {
			part = counted
		}
	}
	perSecond, most := l.Pace(time.Now())
	return perSecond * part, max(1, int(min(most, maxBurst)*part))
}

package reserve

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// The kinds as the scripts call them.
const (
	paced     = "p"
	warmingUp = "w"
	quota     = "q"
	rolling   = "r"
	slots     = "s"
)

// second is a second in micros.
const second = 1e6

func micros(d time.Duration) float64 { return float64(d / time.Microsecond) }

// terms returns the limit as the scripts know it. The limit must be valid.
func (l Limit) terms() wire.Terms {
	switch l.kind {
	case KindQuota:
		return wire.Terms{Kind: quota, A: l.permits, B: micros(l.margin), Edges: l.edges()}
	case KindRolling:
		return wire.Terms{Kind: rolling, A: l.permits, B: micros(l.per + l.margin)}
	case KindSlots:
		return wire.Terms{Kind: slots, A: l.permits, B: 1}
	case KindWarmingUp:
		return wire.Terms{Kind: warmingUp, A: l.micros(), B: micros(l.warm)}
	default:
		return wire.Terms{Kind: paced, A: l.micros(), B: float64(l.MaxBurst())}
	}
}

// inForce returns the rate, in permits per second, and the burst of a limit of this kind with the
// terms a and b.
func (l Limit) inForce(a, b float64) (rate float64, burst int) {
	switch l.kind {
	case KindQuota:
		return a / l.per.Seconds(), int(a)
	case KindRolling:
		return a * second / (b - micros(l.margin)), int(a)
	case KindSlots:
		return a, int(a)
	case KindWarmingUp:
		return second / a, l.MaxBurst()
	default:
		return second / a, int(b)
	}
}

// with returns a limit of this kind with other terms; without terms, the limit itself.
func (l Limit) with(a, b float64) Limit {
	if a == 0 || l.terms().A == a && (l.kind == KindWarmingUp || l.terms().B == b) {
		return l
	}
	switch l.kind {
	case KindQuota, KindSlots:
		l.permits, l.extra = a, int(a)-1
	case KindRolling:
		l.permits, l.extra, l.per = a, int(a)-1, time.Duration(b)*time.Microsecond-l.margin
	case KindWarmingUp:
		l.permits = short(l.per.Seconds() * second / a)
	default:
		l.permits, l.extra = short(l.per.Seconds()*second/a), int(b)-1
		for _, p := range periods { // not 0.000277778/s, but 1/hour
			if l.permits < 1 && p.length > l.per {
				l.permits, l.per = short(p.length.Seconds()*second/a), p.length
			}
		}
	}
	return l
}

// short removes the rounding error of whole micros: 1.5 for 1.49999925.
func short(x float64) float64 {
	six, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err == nil && math.Abs(six-x) <= 1e-6*x {
		return six
	}
	return x
}

// windows is how many edges a script gets: of the window before now, the current one, and three
// later ones. More than one is needed because this process's clock may differ from Redis's.
const windows = 5

// edges returns a function that returns the edges of a quota's windows, in micros. They start with
// the window before a moment. The function is safe for concurrent use.
func (l Limit) edges() func(int64) []int64 {
	zone, err := l.location()
	if err != nil { // it was there when the limit was checked
		zone = time.UTC
	}
	var last atomic.Pointer[[]int64]
	return func(at int64) []int64 {
		if e := last.Load(); e != nil && (*e)[1] <= at && at < (*e)[2] {
			return *e
		}
		unit := calendar.Unit(l.unit)
		begin, _ := unit.Window(time.UnixMicro(at), zone)
		edge, end := unit.Window(begin.Add(-time.Microsecond), zone)
		edges := []int64{edge.UnixMicro()}
		for len(edges) < windows {
			edges = append(edges, end.UnixMicro())
			_, end = unit.Window(end, zone)
		}
		last.Store(&edges)
		return edges
	}
}

// evenly returns the rate, in permits per second, at which evenly spaced calls use up a limit in
// force. It also returns the burst that the provider allows in addition.
func evenly(l *wire.Limit) (rate float64, burst int) {
	a, b := l.InForce()
	switch l.Kind {
	case quota:
		edges := l.Edges(time.Now().UnixMicro())
		return a * second / float64(edges[2]-edges[1]), 1
	case rolling:
		return a * second / b, 1
	case slots:
		return a, 1
	case warmingUp:
		return second / a, 1
	default:
		return second / a, int(math.Min(b, maxBurst))
	}
}

package lua

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// contest is flows of which calls wait all the time, in the Go model of the scripts.
type contest struct {
	*rand.Rand
	model  *queuemodel.Redis
	limit  queuemodel.Limit
	now    float64
	number int
	flows  []*flowing
	turns  []served
	leaves bool // some calls give up
}

type flowing struct {
	queuemodel.Flow
	most  int // permits of a call
	calls []*waitingCall
}

type waitingCall struct {
	number          int
	cost, tag, when float64
}

type served struct {
	at   float64
	flow *flowing
	cost float64
}

const contestHorizon = 250000.0

// contestants are how many calls of a flow wait at a time: more than a horizon lets through.
func (b *contest) contestants() int { return 4 + int(2*contestHorizon/b.limit.A) }

func newContest(seed uint64) *contest {
	b := &contest{Rand: rand.New(rand.NewPCG(seed, 4)), model: queuemodel.New(), now: startMicros}
	burst := 1 + b.IntN(20)
	rate := []float64{1, 5, 20, 100}[b.IntN(4)]
	b.limit = queuemodel.Limit{Kind: "p", A: second / rate, B: float64(burst)}
	for f := range 2 + b.IntN(4) {
		weight := []float64{1, 1, 2, 3, 10}[b.IntN(5)]
		b.flows = append(b.flows, &flowing{Flow: queuemodel.Flow{Name: "f" + strconv.Itoa(f), Weight: weight}, most: 1 + b.IntN(burst)})
	}
	return b
}

func (b *contest) caller() queuemodel.Caller {
	b.number++
	return queuemodel.Caller{Now: b.now, Way: 500, Horizon: contestHorizon, Near: 5000, Grace: 300000, Run: "run", Process: "p", Serial: b.number}
}

// join adds a call of a flow, and asks for it.
func (b *contest) join(f *flowing) {
	b.number++
	c := &waitingCall{number: b.number, cost: float64(1 + b.IntN(f.most))}
	f.calls = append(f.calls, c)
	b.ask(f, c)
}

func (b *contest) ask(f *flowing, c *waitingCall) {
	_, answers := b.model.Ask(b.caller(), []queuemodel.Limit{b.limit}, []queuemodel.Item{{
		Count: 1, Number: c.number, Flow: &f.Flow, Parts: []queuemodel.Part{{Cost: c.cost, Tag: c.tag}},
	}})
	switch a := answers[0]; a.Status {
	case 0:
		c.tag, c.when = a.Tags[0], max(b.now+1000, b.now+a.Wait-100000)
	case 1:
		f.calls = slices.DeleteFunc(f.calls, func(o *waitingCall) bool { return o == c })
		b.turns = append(b.turns, served{b.now + a.Wait, f, c.cost})
		b.join(f) // so that the flow always has calls that wait
	default:
		panic(a.Status)
	}
}

// leave gives a call up; another one of the flow comes.
func (b *contest) leave(f *flowing) {
	c := f.calls[b.IntN(len(f.calls))]
	b.model.Leave(b.caller(), []queuemodel.Limit{b.limit}, 0, "place", strconv.Itoa(c.number), c.cost)
	f.calls = slices.DeleteFunc(f.calls, func(o *waitingCall) bool { return o == c })
	for _, f := range b.flows { // news tell all
		for _, c := range f.calls {
			c.when = b.now
		}
	}
	b.join(f)
}

func (b *contest) run(turns int) {
	for range b.contestants() {
		for _, f := range b.flows {
			b.join(f)
		}
	}
	b.turns = nil // before, some of them had no calls
	for len(b.turns) < turns {
		var next *waitingCall
		var of *flowing
		for _, f := range b.flows {
			for _, c := range f.calls {
				if next == nil || c.when < next.when {
					next, of = c, f
				}
			}
		}
		b.now = max(b.now, next.when)
		had := len(b.turns)
		b.ask(of, next)
		if b.leaves && len(b.turns) > had && b.IntN(5) == 0 {
			b.leave(b.flows[b.IntN(len(b.flows))])
		}
	}
}

// share is the part of the limit that is for a flow.
func (b *contest) share(f *flowing) float64 {
	weights := 0.0
	for _, other := range b.flows {
		weights += other.Weight
	}
	return f.Weight / weights
}

// largest is what the largest calls of all flows cost together.
func (b *contest) largest() (permits float64) {
	for _, f := range b.flows {
		permits += float64(f.most)
	}
	return permits
}

// behind is how many permits a flow was behind its share at most, in any stretch of time.
func (b *contest) behind(f *flowing) (most float64) {
	share := b.share(f)
	turns := slices.Clone(b.turns)
	slices.SortStableFunc(turns, func(x, y served) int { return cmp.Compare(x.at, y.at) })
	lacks, least := 0.0, 0.0
	for _, t := range turns {
		lacks += t.cost * share
		if t.flow == f {
			lacks -= t.cost
		}
		least = min(least, lacks)
		most = max(most, lacks-least)
	}
	return most
}

// A flow of which calls wait is never further behind its share than by its largest call, what a
// horizon lets through, and its share of the largest calls of all flows: a call is made as a
// whole, and start-time fair queueing begins with those of lower weight, too (theorem 1 of
// Goyal, Vin and Cheng). What a
// flow did not use of its share as calls gave up, it has when the others of its calls come
// forward, at most as much as those cost.
func TestNoFlowFallsBehind(t *testing.T) {
	t.Parallel()
	played := 5 * histories(t)
	for _, leaves := range []bool{false, true} {
		worst := 0.0
		for seed := range played {
			b := newContest(seed)
			b.leaves = leaves
			b.run(100)
			for _, f := range b.flows {
				share := b.share(f)
				allowed := float64(f.most) + contestHorizon/b.limit.A + b.largest()*share
				if leaves {
					allowed += float64(b.contestants()) * b.largest() * share
				}
				behind := b.behind(f)
				worst = max(worst, behind/allowed)
				require.LessOrEqual(t, behind, allowed, "history %d, calls give up: %t: %s", seed, leaves, fmt.Sprintf("%+v of %+v", f.Flow, b.limit))
			}
		}
		t.Logf("MEASURE %d histories, calls give up: %t: at most %.2f of what is allowed", played, leaves, worst)
	}
}

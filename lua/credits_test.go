package lua

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// credits is a fleet whose calls are long, whose costs are estimates, and which has always a call that waits.
type credits struct {
	burst, estimate float64
	lasts           time.Duration // what a call takes on average
	scatter         float64       // calls take between 1-scatter and 1+scatter of it
	factors         []float64     // the cost of a call in its estimates
	least           float64       // the part of the limit that they have to use
	refused         float64       // the part of the calls that a strict provider may refuse
}

// Many calls are on their way when the first one is settled. What they did not use comes back, as far as a strict
// provider has it still, and the provider refuses none.
func TestCreditsOfManyCalls(t *testing.T) {
	const second, many = time.Second, 250_000
	for _, c := range []credits{
		{burst: many, estimate: 20_000, lasts: 12 * second, factors: []float64{0.7}, least: 0.98},
		{burst: many, estimate: 20_000, lasts: 12 * second, scatter: 0.5, factors: []float64{0.7}, least: 0.98},
		{burst: many, estimate: 8_000, lasts: 12 * second, scatter: 0.9, factors: []float64{0.7}, least: 0.98},
		{burst: many, estimate: 5_000, lasts: 5 * second, scatter: 0.9, factors: []float64{0.9, 0.2, 1}, least: 0.98},
		{burst: 4 * many, estimate: 20_000, lasts: 12 * second, scatter: 0.5, factors: []float64{1. / 3}, least: 0.98},
		// A permit of each three that are on their way is used. The others are more than the bucket has room for.
		{burst: many, estimate: 20_000, lasts: 12 * second, scatter: 0.5, factors: []float64{1. / 3}, least: 0.55},
		// Some calls use more than their estimates, so a strict provider refuses some. They are settled, too.
		{burst: 4 * many, estimate: 20_000, lasts: 12 * second, scatter: 0.5, factors: []float64{0.5, 0.5, 0.5, 2}, least: 0.95, refused: 0.03},
	} {
		t.Run(fmt.Sprintf("%v of %v in %v and %v %%, %.2f", c.estimate, c.burst, c.lasts, 100*c.scatter, c.factors), func(t *testing.T) {
			used, refused := c.play(t, 1)
			t.Logf("used %.3f, refused %.3f", used, refused)
			require.Greater(t, used, c.least)
			require.LessOrEqual(t, refused, c.refused)
		})
	}
}

// play returns which part of the limit was used in the last one and a half of two minutes, and which part of the
// calls was refused.
func (c credits) play(t *testing.T, seed uint64) (used, refused float64) {
	const a = 40 // micros: 1.5M a minute
	s := serverOf(t.Context(), still(t), Keys("", "", "api", "p", ""))
	limits := []queuemodel.Limit{{Kind: "p", A: a, B: c.burst, Rank: 1}}
	who := queuemodel.Caller{Now: startMicros, Horizon: 50_000, Near: 4_000, Grace: 300_000, Process: "a"}
	account, random := provider.New(provider.TokenBucket(1e6/a, int(c.burst))), rand.New(rand.NewPCG(seed, 1))
	type flight struct {
		id       string
		ends     float64
		estimate float64
		used     float64
	}
	var flights []flight
	calls := 0.0
	for number := 1; who.Now < startMicros+120e6; number++ {
		who.Serial++
		_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Now: true, Settles: true, Parts: single(c.estimate)}})
		require.NoError(t, err)
		next := who.Now
		if answers[0].Status == 1 {
			f := flight{fmt.Sprintf("a:%d", number), 0, c.estimate, float64(int(c.estimate * c.factors[random.IntN(len(c.factors))]))}
			f.ends = who.Now + math.Floor(float64(c.lasts.Microseconds())*(1+c.scatter*(2*random.Float64()-1)))
			flights = append(flights, f)
			calls++
			if ok, _ := account.JudgeAt(time.UnixMicro(int64(who.Now+answers[0].Wait)), int(f.used)); !ok {
				refused++
			}
			if who.Now > startMicros+30e6 {
				used += f.used
			}
		} else {
			next += max(1000, answers[0].Wait)
		}
		for {
			first := -1
			for i, f := range flights {
				if f.ends <= next && (first < 0 || f.ends < flights[first].ends) {
					first = i
				}
			}
			if first < 0 {
				break
			}
			f := flights[first]
			flights = append(flights[:first], flights[first+1:]...)
			who.Serial, who.Now = who.Serial+1, max(who.Now, f.ends)
			next = who.Now
			_, _, _, err := s.Settle(who, limits, 0, queuemodel.Report{ID: f.id, Cost: f.estimate, Used: f.used})
			require.NoError(t, err)
		}
		who.Now = next
	}
	return used / (90e6 / a), refused / calls
}

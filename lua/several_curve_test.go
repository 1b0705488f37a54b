package lua

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// curve is Guava's SmoothWarmingUp, from its definition. Moments and durations are micros
// since the first call.
type curve struct {
	interval, period float64
	threshold, most  float64 // stored permits
	stored, next     float64
}

const coldFactor = 3.0

func newCurve(interval, period float64) *curve {
	c := &curve{interval: interval, period: period, threshold: 0.5 * period / interval}
	c.most = c.threshold + 2*period/(interval+coldFactor*interval)
	c.stored = c.most // it begins cold
	return c
}

// area is the time that the first `stored` permits take: one interval each up to the
// threshold, and above it what a straight line says that comes to the cold interval where
// all are stored.
func (c *curve) area(stored float64) float64 {
	above := max(0, stored-c.threshold)
	slope := (coldFactor*c.interval - c.interval) / (c.most - c.threshold)
	return c.interval*stored + slope*above*above/2
}

// call returns when a call that comes at a moment is let through: those behind it pay.
func (c *curve) call(at float64, permits int64) (turn float64) {
	if at > c.next {
		c.stored = min(c.most, c.stored+(at-c.next)/(c.period/c.most))
		c.next = at
	}
	turn = c.next
	used := min(float64(permits), c.stored)
	c.next += c.area(c.stored) - c.area(c.stored-used) + (float64(permits)-used)*c.interval
	c.stored -= used
	return turn
}

// Limits that warm up go by Guava's formula, to a microsecond, over random idle times and
// costs: the script's moments are doubles, which hold quarters of one. Where the state expires
// or is lost, they go on with what the caller knows.
func TestWarmUpCurve(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := patient(t, server)
		scripts := severalOf(line, several)
		for n, set := range []struct{ interval, period float64 }{
			{100_000, 2e6},
			{100_000, 10e6},
			{1_000_000, 600e6},
			{10_000.0 / 3, 1e6},
			{1_500, 1_000}, // hardly anything is stored
			{50, 30e6},
			{700_000, 86_400e6},
		} {
			t.Run(fmt.Sprintf("%.0f in %.0f", set.interval, set.period), func(t *testing.T) {
				const seed = 7
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				keys := Keys(redistest.Prefix(t), "curve", "")
				c := newCurve(set.interval, set.period)
				begin := int64(1_700_000_000_000_000)
				now, waited, worst, said := begin, 0, 0.0, ""
				for i := range 400 {
					cost := 1 + random.Int64N(3)
					switch random.IntN(8) {
					case 0: // idle: for a little, or until all are stored
						now = max(now, begin+int64(c.next)) + int64(random.Float64()*1.2*c.period)
					case 1, 2: // while those before it are being paid for
						now += int64(random.Float64() * max(0, c.next-float64(now-begin)))
					case 3:
						cost = 1 + random.Int64N(int64(c.most)+2)
						now += int64(random.Float64() * c.interval)
					default: // about when it is warm
						now = max(now, begin+int64(c.next)) + int64(random.Float64()*c.interval/2)
					}
					if random.IntN(10) == 0 {
						require.NoError(t, client.Del(t.Context(), keys...).Err())
					}
					want := c.call(float64(now-begin), cost)
					reply, err := scripts.turn.Run(t.Context(), client, keys, now, int64(1e15), -1, fmt.Sprint("c", i),
						"warming", cost, -1, 0, 3, set.interval, set.period, said).Slice()
					require.NoError(t, err)
					require.EqualValues(t, 1, reply[1], "the turn is final")
					said = reply[5].([]any)[1].(string)
					known := strings.Fields(said) // epoch, now, stored, next
					next, err := strconv.ParseFloat(known[3], 64)
					require.NoError(t, err)
					off := math.Abs(next - float64(begin) - c.next)
					worst = max(worst, off)
					late := float64(now-begin) + float64(reply[2].(int64)) - want // a wait is rounded up to whole micros
					if off > 1 || late < -1 || late > 2 {
						t.Fatalf("seed %d, call %d of %d permits at %d: its turn is %.2f micros from the formula's, and the next one %.2f",
							seed, i, cost, now-begin, late, off)
					}
					if want > float64(now-begin) {
						waited++
					}
				}
				t.Logf("400 calls, %d of them waited, at most %.2f micros from the formula", waited, worst)
				require.Greater(t, waited, 50, "the seed has calls that wait")
				require.NoError(t, client.Del(t.Context(), keys...).Err())
			})
		}
	})
}

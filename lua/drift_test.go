package lua

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A million calls later a limit is where it should be, to the microsecond: its permits come at
// its rate, whether that is a whole number of micros or not.
func TestAMillionCallsDoNotDrift(t *testing.T) {
	const burst, horizon = 1000, 250_000
	most := redistest.Budget(1_000_000, 100_000)
	for rate, interval := range map[string]*big.Rat{
		"1 in 3 s": big.NewRat(3e6, 1), "7/s": big.NewRat(1e6, 7), "600/min": big.NewRat(1e5, 1), "1,000,000/s": big.NewRat(1, 1),
	} {
		t.Run(rate, func(t *testing.T) {
			client := still(t)
			a, _ := interval.Float64()
			s := &server{client: client, ctx: t.Context(), ask: Ask, keys: Keys(redistest.Prefix(t), "", "api", "p", "")}
			who := queuemodel.Caller{Now: startMicros, Horizon: horizon, Near: 5000, Grace: 300000, Run: "run", Process: "p"}
			limit := []queuemodel.Limit{{Kind: "p", A: a, B: burst}}
			free := new(big.Rat).SetInt64(startMicros) // when all permits that were spent have come
			free.Sub(free, times(interval, burst))
			r := rand.New(rand.NewPCG(1, 2))
			ask := func(count int, tag float64) {
				who.Serial++
				limit[0].Clock = who.Now // the process has measured it
				heads, answers, err := s.Ask(who, limit, []queuemodel.Item{{Count: count, Number: 1, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
				require.NoError(t, err)
				if heads[0].Text != "" {
					limit[0].Known = heads[0].Text
				}
				limit[0].Version, limit[0].Reach = heads[0].Version, heads[0].Reach
				require.Len(t, answers, count)
				free.Add(free, times(interval, count))
				due, _ := new(big.Rat).Sub(free, new(big.Rat).SetFloat64(who.Now)).Float64()
				require.EqualValues(t, 1, answers[count-1].Status)
				require.InDelta(t, max(0, due), answers[count-1].Wait, 1, "the last turn")
			}
			ask(1, 0)
			for calls := 1; calls < most; {
				count, tag := min(1+r.IntN(burst), most-calls), 0.0
				if calls%10 == 0 { // not by the common path
					count, tag = 1, 1
				}
				last, _ := new(big.Rat).Add(free, times(interval, count)).Float64()
				who.Now = max(who.Now+1, float64(int64(last)-r.Int64N(horizon-1)))
				ask(count, tag)
				calls += count
			}
			fields, err := client.HMGet(t.Context(), s.keys[0], "nextFreeTicketMicros", "fraction").Result()
			require.NoError(t, err)
			is := new(big.Rat)
			for _, field := range fields {
				x, err := strconv.ParseFloat(fmt.Sprint(field), 64)
				require.NoError(t, err)
				is.Add(is, new(big.Rat).SetFloat64(x))
			}
			off, _ := is.Sub(is, free).Float64()
			t.Logf("off by %.2g micros", off)
			require.InDelta(t, 0, off, 1)
		})
	}
}

func times(interval *big.Rat, n int) *big.Rat {
	return new(big.Rat).Mul(interval, big.NewRat(int64(n), 1))
}

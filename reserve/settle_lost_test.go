package reserve_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// losing loses the replies of scripts that settle, one for each letter: "+": Redis has the request, "-": it does not.
// "*": that of the letter before it goes on.
type losing struct{ next string }

func (*losing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" || cmd.Args()[1] != lua.Settle.Hash() || c.next == "" {
			return next(ctx, cmd)
		}
		got := c.next[0] == '+'
		if len(c.next) == 1 || c.next[1] != '*' {
			c.next = c.next[1:]
		}
		if got {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

func (*losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// report is what a call reports: its use, whether that is an estimate, and which replies are lost.
type report struct {
	used     int
	estimate bool
	lost     string
}

// reports lets a call of cost 10 report, and returns how many permits the limits count for it then, and what it is told.
func (c *losing) reports(t *testing.T, limits []*reserve.Limiter, all ...report) (counted, charged []int) {
	var was []float64
	for _, l := range limits {
		was = append(was, state(t, l).Stored)
	}
	r, err := joint(t, limits...).Reserve(t.Context(), slices.Repeat([]int{10}, len(limits))...)
	require.NoError(t, err)
	require.NoError(t, r.Wait(t.Context()))
	for _, is := range all {
		settle := r.Settle
		if is.estimate {
			settle = r.Estimate
		}
		c.next = is.lost
		err := settle(t.Context(), slices.Repeat([]int{is.used}, len(limits))...)
		if c.next = ""; is.lost != "" && err != nil {
			require.ErrorIs(t, err, reserve.ErrUnavailable)
			time.Sleep(20 * time.Second) // until Redis counts as reachable
			continue
		}
		require.NoError(t, err)
	}
	for i, l := range limits {
		counted = append(counted, int(math.Round(was[i]-state(t, l).Stored)))
	}
	return counted, r.Charged()
}

// Whichever replies to reports are lost, the limits count what they count if all arrive: at least what the call used.
// Only a report that gives back a second time, of which nothing comes back, may count once more what it would give back.
func TestReportsWhoseRepliesAreLost(t *testing.T) {
	paced, quota, rolling := reserve.Every(5*time.Hour).Burst(50_000), reserve.Quota(50_000, reserve.CalendarMonth), reserve.Rolling(50_000, 1000*time.Hour)
	for name, limits := range map[string][]reserve.Limit{"one": {paced}, "joint": {paced, quota, rolling}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, lose := newBubble(t), &losing{}
				client := b.client()
				require.NoError(t, lua.Settle.Load(t.Context(), client).Err())
				client.AddHook(lose)
				var all []*reserve.Limiter
				for i, limit := range limits {
					all = append(all, b.on(client, reserve.Config{Group: "api", Name: fmt.Sprint(i), Limit: limit, Settles: true}))
				}
				patterns := []string{"", "+", "-", "-+", "+*", "+-*", "-+*"}
				if redistest.Budget(raceDetector, true) {
					patterns = patterns[3:6]
				}
				for _, first := range []report{{used: 0}, {used: 6}, {used: 13}, {used: 6, estimate: true}} {
					for _, second := range []int{15, 4} {
						for _, last := range []int{second, 20} {
							exact, charged := lose.reports(t, all, first, report{used: second}, report{used: last})
							require.Equal(t, exact, charged)
							require.GreaterOrEqual(t, slices.Min(exact), last)
							for _, lost := range patterns {
								for _, again := range []string{"", "+", "-*"} {
									what := []report{first, {used: second, lost: again}, {used: last}}
									what[0].lost = lost
									counted, charged := lose.reports(t, all, what...)
									if again == "" || first.estimate || first.used > 10 || second > first.used {
										require.Equal(t, exact, counted, what)
										require.Equal(t, exact, charged, what)
										continue
									}
									for i, n := range counted {
										require.GreaterOrEqual(t, n, charged[i], what)
										require.GreaterOrEqual(t, charged[i], last, what)
										require.LessOrEqual(t, n, exact[i]+first.used-second, what)
									}
								}
							}
						}
					}
				}
			})
		})
	}
}

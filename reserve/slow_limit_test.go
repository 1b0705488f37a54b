package reserve_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Replies that are late cost a slow limit no turn, with 20 calls of two processes behind: nobody
// goes to the end of the queue, and a provider that bears 20 ms refuses none.
func TestLateRepliesOfASlowLimit(t *testing.T) {
	for _, limit := range slow {
		for _, late := range []time.Duration{25 * time.Millisecond, 40 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprint(limit, " ", late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const behind = 20
					const grains = 1_000_000 // of a call
					bears := int(grains * 0.02 / limit.Interval().Seconds())
					api := provider.New(provider.TokenBucket(grains/limit.Interval().Seconds(), grains+bears+1))
					b := newBubble(t)
					fleet := []*reserve.Limiter{b.limiter(limit), b.limiter(limit)}
					for who, l := range fleet { // now the way is known
						for i := range 6 {
							require.NoError(t, l.For(fmt.Sprint("other ", who, i)).Wait(t.Context()))
						}
					}
					var replies atomic.Int64
					b.delay(func() time.Duration {
						if replies.Add(1)%4 == 1 {
							return late
						}
						return 0
					})
					calls := newLog()
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					for who := range behind + 1 {
						calls.busy.Go(func() {
							if fleet[who%2].For("key").Wait(ctx) != nil {
								return
							}
							calls.mu.Lock()
							defer calls.mu.Unlock()
							api.Judge(grains)
							calls.calls = append(calls.calls, call{calls.now(), 1, who})
						})
						time.Sleep(late + 10*time.Millisecond) // so they ask one after the other
					}
					if limit.Interval() > time.Minute { // hours of heartbeats take long here, too
						time.Sleep(3 * time.Second)
						first := calls.between(0, time.Hour)
						require.Len(t, first, 1)
						require.Zero(t, first[0].who)
						require.InDelta(t, float64(behind+1)*limit.Interval().Seconds(), state(t, fleet[0].For("key")).Wait.Seconds(), 10)
						leave()
						calls.busy.Wait()
						return
					}
					made := calls.all()
					require.Zero(t, api.Summary().Refused)
					for i, c := range made {
						require.InDelta(t, i, c.who, 2, "in order")
					}
					require.LessOrEqual(t, calls.now(), behind*limit.Interval()+3*time.Second, "no turn is lost")
				})
			})
		}
	}
}

// The same of calls that do not wait.
func TestLateReplyOfAnAllow(t *testing.T) {
	for _, limit := range slow {
		for _, late := range []time.Duration{25 * time.Millisecond, 40 * time.Millisecond, 150 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				l := b.limiter(limit)
				for i := range 6 {
					require.NoError(t, l.For(fmt.Sprint("other ", i)).Wait(t.Context()))
				}
				var replies atomic.Int64
				b.delay(func() time.Duration {
					if replies.Add(1) == 1 {
						return late
					}
					return 0
				})
				require.True(t, allowed(t, l.For("key"), 1), late)
			})
		}
	}
}

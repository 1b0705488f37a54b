package reserve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	usual    = 3 * time.Second // without trouble, at first
	recovers = 5 * time.Second // after Redis is back: no slot is given for 3 s where data was lost
	judged   = 3 * time.Second
	never    = time.Duration(-1)
)

// slotUse is a fleet whose calls wait for slots all the time, and a trouble. All slots are to be
// used when it is over, and none by two.
type slotUse struct {
	history
	callers int           // of each process
	takes   time.Duration // a call, about

	calls []slotCall
	now   int // calls that hold slots
	most  int
}

// slotCall is one that was made: when it began to wait, and to be made.
type slotCall struct{ came, made time.Duration }

func newSlotUse(seed uint64, all ...trouble) *slotUse {
	p := &plan{seed: seed, policy: reserve.PolicyWait, burst: 1}
	r := p.random("use", 0)
	p.slots = 1 + r.IntN(3)
	for range 2 + r.IntN(2) {
		p.way = append(p.way, 100*time.Microsecond+time.Duration(r.IntN(1_500_000)))
		p.timeout = append(p.timeout, 200*time.Millisecond+time.Duration(r.IntN(301))*time.Millisecond)
	}
	p.suffer(all...)
	u := &slotUse{history: history{plan: p, open: map[string]time.Duration{}}, callers: p.slots + r.IntN(3)}
	u.takes = time.Duration(50+r.IntN(51)) * time.Millisecond
	return u
}

func (u *slotUse) run(t *testing.T) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	defer m.Close()
	server := newFaultyRedis(m)
	u.network = &network{plan: u.plan, redis: server, start: time.Now(), random: u.random("network", 0)}
	var clients []*redis.Client
	for i := range u.way {
		clients = append(clients, u.join(t, i))
	}
	for _, f := range u.troubles {
		u.prepare(server, f)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range u.way {
		for k := range u.callers {
			all.Go(func() { u.calling(ctx, i, k) })
		}
	}
	time.Sleep(u.ends + recovers + judged)
	stop()
	all.Wait()
	for i, j := range u.fleet {
		_ = j.Limits()[0].Close()
		_ = clients[i].Close()
	}
}

// calling makes one call after the other.
func (u *slotUse) calling(ctx context.Context, process, caller int) {
	random := u.random("caller", process*100+caller)
	for ctx.Err() == nil {
		came := u.network.now()
		r, err := u.fleet[process].Acquire(ctx)
		u.mu.Lock()
		if err == nil {
			u.calls = append(u.calls, slotCall{came, u.network.now()})
			u.now++
			u.most = max(u.most, u.now)
		} else if !errors.Is(err, context.Canceled) {
			u.problem("%v", err)
		}
		u.mu.Unlock()
		if err != nil {
			return
		}
		time.Sleep(time.Duration((0.8 + 0.4*random.Float64()) * float64(u.takes)))
		u.mu.Lock()
		u.now--
		u.mu.Unlock()
		r.Release()
	}
}

// rate is how many calls were made per second in a time.
func (u *slotUse) rate(from, to time.Duration) float64 {
	n := 0
	for _, c := range u.calls {
		if from <= c.made && c.made < to {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}

// longest is how long a call has waited that came after a moment.
func (u *slotUse) longest(from time.Duration) (most time.Duration) {
	for _, c := range u.calls {
		if c.came >= from {
			most = max(most, c.made-c.came)
		}
	}
	return most
}

// round is how long it takes until all callers had a slot.
func (u *slotUse) round() time.Duration {
	return u.takes * time.Duration(u.callers*len(u.way)) / time.Duration(u.slots)
}

// every lets the same happen over and over.
func (f trouble) every(apart, until time.Duration) (all []trouble) {
	for ; f.from < until; f.from += apart {
		all = append(all, f)
	}
	return all
}

// Whatever happens to Redis or to its news, all slots are used again when it is over, and none by
// two calls.
func TestSlotsAreUsedAfterTroubles(t *testing.T) {
	for i, c := range []struct {
		name     string
		troubles []trouble
		idle     time.Duration // of a slot, meanwhile, after each call; below 0: nothing is expected
	}{
		{"away for 6 s", []trouble{{what: down, process: -1, from: usual, to: usual + 6*time.Second}}, never},
		{"away for 20 s", []trouble{{what: down, process: -1, from: usual, to: usual + 20*time.Second}}, never},
		{"away for 6 s, data lost", []trouble{{what: restart, process: -1, from: usual, to: usual + 6*time.Second}}, never},
		{"away for 20 s, data lost", []trouble{{what: restart, process: -1, from: usual, to: usual + 20*time.Second}}, never},
		{"away for one", []trouble{{what: partition, process: 0, from: usual, to: usual + 8*time.Second}}, never},
		{"news are cut", trouble{what: cutNews, process: -1, from: usual}.every(800*time.Millisecond, usual+6*time.Second), 10 * time.Millisecond},
		{"news are lost", []trouble{{what: loseNews, process: -1, from: usual, to: usual + 5*time.Second, chance: 1}}, time.Second},
		{"some news are lost", []trouble{{what: loseNews, process: -1, from: usual, to: usual + 5*time.Second, chance: 0.3}}, 400 * time.Millisecond},
		{"replies are lost", []trouble{{what: loseReply, process: -1, from: usual, to: usual + 5*time.Second, chance: 0.02}}, never},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(max(1, faultHistories(t)/16)) {
				u := newSlotUse(uint64(i)+seed*100, c.troubles...)
				synctest.Test(t, u.run)
				before, after := u.rate(usual/2, usual), u.rate(u.ends+recovers, u.ends+recovers+judged)
				meanwhile, longest := u.rate(usual, u.ends), u.longest(u.ends+recovers)
				t.Logf("seed %d, %d slots, %d processes of %d callers: %.1f/s before, %.1f/s meanwhile, %.1f/s after, %d at once, longest wait %v, a round %v",
					u.seed, u.slots, len(u.way), u.callers, before, meanwhile, after, u.most, longest, u.round())
				require.Empty(t, u.problems)
				require.LessOrEqual(t, u.most, u.slots, "calls at once")
				if c.idle != never {
					require.GreaterOrEqual(t, meanwhile, float64(u.slots)/(u.takes+c.idle).Seconds(), "calls per second meanwhile")
				}
				require.GreaterOrEqual(t, after, 0.9*before, "calls per second afterwards")
				require.LessOrEqual(t, longest, u.round()*3/2, "the longest wait")
			}
		})
	}
}

// A message is lost that says that there is a slot, though the process hears news. The slot is not
// idle until its calls ask anyway.
func TestALostMessageOfASlot(t *testing.T) {
	for _, waiting := range []int{1, 5} {
		for _, slots := range []int{1, 2} {
			for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%d wait for one of %d slots for %v", waiting, slots, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t)
						var loses atomic.Bool
						client := clientOn(b, func() delay.Way {
							var news atomic.Bool
							return delay.Way{
								Out: func(sent []byte) time.Duration {
									if bytes.Contains(sent, []byte("\r\nsubscribe\r\n")) {
										news.Store(true)
									}
									return way
								},
								Back: func() time.Duration { return way },
								Dead: func() bool { return news.Load() && loses.Load() },
							}
						})
						one, two := b.limiter(reserve.Concurrent(slots)), b.on(client, reserve.Config{Limit: reserve.Concurrent(slots)})
						var held []*reserve.Reservation
						for range slots {
							r, err := one.Acquire(t.Context(), 1)
							require.NoError(t, err)
							held = append(held, r)
						}
						ended := make(chan error, waiting)
						for range waiting {
							go func() {
								r, err := two.Acquire(t.Context(), 1)
								if err == nil {
									r.Release()
								}
								ended <- err
							}()
						}
						time.Sleep(after)
						loses.Store(true)
						held[0].Release()
						time.Sleep(100 * time.Millisecond)
						loses.Store(false)
						began := time.Now()
						for range waiting {
							require.NoError(t, <-ended)
						}
						require.LessOrEqual(t, time.Since(began), time.Second)
						for _, r := range held[1:] {
							r.Release()
						}
					})
				})
			}
		}
	}
}

// A pause ends, and no message says so: who waits for a slot has it then.
func TestSlotsAfterAPause(t *testing.T) {
	for _, paused := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		for _, before := range []bool{false, true} { // the slot is let go before the pause, and taken by nobody
			t.Run(fmt.Sprintf("of %v, free before %v", paused, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					one, two := b.limiter(reserve.Concurrent(1)), b.limiter(reserve.Concurrent(1))
					held, err := one.Acquire(t.Context(), 1)
					require.NoError(t, err)
					if before {
						held.Release()
						time.Sleep(100 * time.Millisecond)
					}
					began := time.Now()
					require.NoError(t, one.Pause(t.Context(), paused, "told so"))
					first, second := taking(joint(t, two)), taking(joint(t, two))
					time.Sleep(paused / 2)
					held.Release()
					require.NoError(t, <-first)
					require.NoError(t, <-second)
					require.InDelta(t, paused.Seconds(), time.Since(began).Seconds(), 0.3)
				})
			})
		}
	}
}

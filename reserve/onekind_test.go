package reserve_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limitkinds "github.com/fleetpace/fleetpace/internal/bubble"
	scripts "github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Two kinds of limit are not in force under one name: the calls of the later process fail, and say
// so. When nobody lives who uses the other kind, the name may have the new one. All pairs of kinds.
func TestANameHasOneKind(t *testing.T) {
	for i, first := range limitkinds.Kinds[:4] {
		for j, second := range limitkinds.Kinds[:4] {
			if i == j {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				one := b.on(client, reserve.Config{Logger: silent, Limit: first.Limits[0]})
				two := b.with(reserve.Config{Logger: silent, Limit: second.Limits[0]})
				require.NoError(t, one.Wait(t.Context()))
				time.Sleep(time.Second)
				_, _ = two.Allow(t.Context())
				time.Sleep(100 * time.Millisecond)
				for range 5 {
					_, err := two.Allow(t.Context())
					require.ErrorIs(t, err, reserve.ErrInvalid, "%s, then %s", first.Name, second.Name)
					assert.ErrorContains(t, err, first.Limits[0].String())
					time.Sleep(time.Second)
					_, err = one.Allow(t.Context())
					require.NoError(t, err)
				}
				require.NoError(t, one.Close())
				time.Sleep(2 * time.Second)
				_, _ = two.Allow(t.Context())
				time.Sleep(6 * time.Second)
				_, err := two.Allow(t.Context())
				require.NoError(t, err, "%s, then %s: nobody uses the other kind", first.Name, second.Name)
			})
		}
	}
}

var silent = slog.New(slog.DiscardHandler)

// everyKind is a limit of each kind.
var everyKind = []reserve.Limit{
	limitkinds.Kinds[0].Limits[0], limitkinds.Kinds[1].Limits[0], limitkinds.Kinds[2].Limits[0], limitkinds.Kinds[3].Limits[0],
	reserve.Concurrent(5),
}

// pairs calls f for each two limits of different kinds.
func pairs(f func(first, second reserve.Limit)) {
	for _, first := range everyKind {
		for _, second := range everyKind {
			if first != second {
				f(first, second)
			}
		}
	}
}

// callOnce makes a call, and releases the slots that it has got.
func callOnce(ctx context.Context, l *reserve.Limiter) error {
	if l.Limit().Kind() != reserve.KindSlots {
		return l.Wait(ctx)
	}
	r, err := l.Acquire(ctx, 1)
	if err == nil {
		r.Release()
	}
	return err
}

// The first calls of a process whose limit is of another kind than the one in force fail, as all
// later ones, in every way to call, near and far, of one key and of many, alone and in a Joint. None
// of them passes, nor after a rest, and those of the kind in force all do.
func TestNoCallOfAnotherKindPasses(t *testing.T) {
	passed, pair := 0, 0
	pairs(func(first, second reserve.Limit) {
		pair++
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			b.way.Store(int64([]time.Duration{time.Millisecond, 60 * time.Millisecond}[pair%2]))
			one := b.with(reserve.Config{Logger: silent, Group: "g", Limit: first})
			require.NoError(t, callOnce(t.Context(), one))
			client := b.client()
			two := b.on(client, reserve.Config{Logger: silent, Group: "g", Limit: second})
			more := b.on(client, reserve.Config{Logger: silent, Group: "g", Name: "other", Limit: reserve.PerSecond(100)})
			both := joint(t, more, two)
			for range 3 {
				var all sync.WaitGroup
				var mu sync.Mutex
				refused := func(err error) {
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						passed++
						return
					}
					require.ErrorIs(t, err, reserve.ErrInvalid, "%s, then %s", first, second)
					require.ErrorContains(t, err, first.String())
				}
				for i := range 5 {
					all.Go(func() { refused(callOnce(t.Context(), two)) })
					all.Go(func() { refused(callOnce(t.Context(), two.For(fmt.Sprint("key ", i)))) })
					all.Go(func() {
						r, err := both.Reserve(t.Context())
						if err == nil {
							r.Release()
						}
						refused(err)
					})
					if second.Kind() != reserve.KindSlots {
						all.Go(func() {
							if ok, err := two.Allow(t.Context()); ok || err != nil {
								refused(err)
							}
						})
					}
				}
				all.Wait()
				for range 15 { // the one rests, the other does not
					time.Sleep(time.Second)
					ctx, stop := context.WithTimeout(t.Context(), 900*time.Millisecond)
					if err := callOnce(ctx, one); err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					stop()
				}
			}
		})
	})
	require.Zero(t, passed, "calls of the other kind that passed")
}

// Two limiters of one process, of a group or of none, are no exception: the calls of the second kind
// fail, those of the first go on. When the first is closed, the second one's go on.
func TestTwoKindsInOneProcess(t *testing.T) {
	pairs(func(first, second reserve.Limit) {
		for _, group := range []string{"", "g"} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				one := b.on(client, reserve.Config{Logger: silent, Group: group, Limit: first})
				two := b.on(client, reserve.Config{Logger: silent, Group: group, Limit: second})
				require.NoError(t, callOnce(t.Context(), one))
				for range 4 {
					err := callOnce(t.Context(), two)
					require.ErrorIs(t, err, reserve.ErrInvalid, "%s, then %s", first, second)
					require.ErrorContains(t, err, first.String())
					time.Sleep(6 * time.Second)
					require.NoError(t, callOnce(t.Context(), one), "%s, then %s", first, second)
				}
				require.NoError(t, one.Close())
				time.Sleep(2 * time.Second)
				_ = callOnce(t.Context(), two)
				time.Sleep(6 * time.Second)
				require.NoError(t, callOnce(t.Context(), two), "%s, then %s: nobody uses the other kind", first, second)
			})
		}
	})
}

// Both kinds ask at the same time for the first time: one of them is in force, and alone.
func TestTwoKindsBeginAtOnce(t *testing.T) {
	pairs(func(first, second reserve.Limit) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			limiters := make([]*reserve.Limiter, 2)
			for i, limit := range []reserve.Limit{first, second} {
				client := b.client()
				limiters[i] = b.on(client, reserve.Config{Logger: silent, Group: "g", Limit: limit})
				for range 3 { // the process is connected, and knows the way
					require.NoError(t, b.on(client, reserve.Config{Logger: silent, Group: "g", Name: "other", Limit: reserve.PerSecond(100)}).Wait(t.Context()))
				}
			}
			var passed [2]atomic.Int64
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(i/2) * 300 * time.Microsecond)
					if callOnce(t.Context(), limiters[i%2]) == nil {
						passed[i%2].Add(1)
					}
				})
			}
			all.Wait()
			require.True(t, (passed[0].Load() == 0) != (passed[1].Load() == 0), "%s: %d, %s: %d", first, passed[0].Load(), second, passed[1].Load())
		})
	})
}

// A process that was refused has no turns of its own without Redis, either.
func TestNoLocalTurnsOfAnotherKind(t *testing.T) {
	pairs(func(first, second reserve.Limit) {
		for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyOpen} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				one := b.with(reserve.Config{Logger: silent, Limit: first})
				two := b.with(reserve.Config{Logger: silent, Limit: second, Outage: reserve.Outage{Policy: policy}})
				require.NoError(t, callOnce(t.Context(), one))
				require.ErrorIs(t, callOnce(t.Context(), two), reserve.ErrInvalid)
				b.cut.Store(true)
				for range 50 {
					ctx, stop := context.WithTimeout(t.Context(), time.Second)
					require.Error(t, callOnce(ctx, two), "%s, then %s", first, second)
					stop()
				}
				b.cut.Store(false)
				time.Sleep(10 * time.Second) // a connection that is being made when its client closes would stand still
			})
		}
	})
}

// No call waits for the first heartbeat of its name, which goes out beside it.
func TestTripsOfFirstCalls(t *testing.T) {
	for _, way := range []time.Duration{time.Millisecond, 30 * time.Millisecond} {
		for _, limit := range everyKind {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				b.way.Store(int64(way))
				other := b.with(reserve.Config{Logger: silent, Limit: limit})
				require.NoError(t, callOnce(t.Context(), other.For("loads the scripts")))
				l := b.with(reserve.Config{Logger: silent, Limit: limit})
				trips := func(l *reserve.Limiter) float64 {
					began := time.Now()
					require.NoError(t, callOnce(t.Context(), l))
					return float64(time.Since(began)) / float64(2*way)
				}
				first := trips(l.For("a"))
				time.Sleep(10 * way) // what followed the first call is done, so its connections are free
				second := trips(l.For("b"))
				time.Sleep(time.Minute / 2)
				require.NoError(t, callOnce(t.Context(), other.For("signs off last"))) // so the process learns of a death, too
				time.Sleep(time.Minute / 2)
				rested := trips(l.For("c"))
				t.Logf("%s, %v away: %.2f trips, then %.2f, after a rest %.2f", limit, 2*way, first, second, rested)
				require.LessOrEqual(t, first, 4.1, "to connect, to measure, and to ask")
				require.LessOrEqual(t, max(second, rested), 2.1, "to ask, and of slots to be sure of the heartbeat")
			})
		}
	}
}

// Where Redis does not take heartbeats, calls go on.
func TestCallsGoOnWithoutHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limitkinds.New(t)
		b.Refuse(scripts.Beat)
		l := b.Limiter(b.Client(), reserve.Config{Logger: silent, Limit: reserve.PerSecond(10)})
		began := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.For("other").Wait(t.Context()))
		require.Less(t, time.Since(began), time.Second)
	})
}

// The first turn of a slow limit is used, although the first heartbeat is answered later than the ask. A fast limit
// gives the next turn soon.
func TestFirstTurnsOfSlowLimits(t *testing.T) {
	for _, limit := range []reserve.Limit{
		reserve.PerHour(1), reserve.PerHour(1).WarmUp(time.Hour), reserve.PerMinute(20), reserve.Rolling(2, time.Hour), reserve.PerDay(1), reserve.PerSecond(50),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := limitkinds.New(t)
			b.Way, b.Beats = time.Millisecond, 18*time.Millisecond
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			require.NoError(t, b.Limiter(b.Client(), reserve.Config{Logger: silent, Limit: limit}).Wait(ctx), limit)
		})
	}
}

// When nobody uses the other kind any more, the new one is in force as soon as docs/limits.md says: after
// the old process has closed its limiter, was killed, or has made no calls.
func TestANewKindTakesOver(t *testing.T) {
	for _, end := range []struct {
		what string
		most time.Duration
	}{{"closed", 1500 * time.Millisecond}, {"killed", 5 * time.Second}, {"rests", 16500 * time.Millisecond}} {
		longest := time.Duration(0)
		pairs(func(first, second reserve.Limit) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				one := b.on(client, reserve.Config{Logger: silent, Limit: first})
				two := b.with(reserve.Config{Logger: silent, Limit: second})
				require.NoError(t, callOnce(t.Context(), one))
				for range 12 {
					require.ErrorIs(t, callOnce(t.Context(), two), reserve.ErrInvalid)
					time.Sleep(100 * time.Millisecond)
				}
				switch end.what {
				case "closed":
					require.NoError(t, one.Close())
				case "killed":
					require.NoError(t, client.Close())
				}
				began := time.Now()
				for callOnce(t.Context(), two) != nil {
					time.Sleep(50 * time.Millisecond)
					require.LessOrEqual(t, time.Since(began), end.most, "%s, then %s: %s", first, second, end.what)
				}
				longest = max(longest, time.Since(began))
			})
		})
		t.Logf("%s: %v at the longest", end.what, longest)
	}
}

// Before its first call, a limiter whose limit is of another kind than the one in force may not change or
// show a limit, either: each method says so, and changes nothing. When nobody uses the kind in force any
// more, it may. Alone, in a group, with a key, and in a process that has rested.
func TestMethodsOfAnotherKindFail(t *testing.T) {
	pair := 0
	pairs(func(first, second reserve.Limit) {
		pair++
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			group, ctx := []string{"", "g"}[pair%2], t.Context()
			client := b.client()
			one := b.on(client, reserve.Config{Logger: silent, Group: group, Limit: first})
			two := b.with(reserve.Config{Logger: silent, Group: group, Limit: second})
			methods := []struct {
				what string
				call func(l *reserve.Limiter) error
			}{
				{"State", func(l *reserve.Limiter) error { _, err := l.State(ctx); return err }},
				{"States", func(l *reserve.Limiter) error { _, err := l.States(ctx, "a", "b"); return err }},
				{"Resume", func(l *reserve.Limiter) error { return l.Resume(ctx) }},
				{"ResetLimit", func(l *reserve.Limiter) error { return l.ResetLimit(ctx) }},
				{"SetLimit", func(l *reserve.Limiter) error { return l.SetLimit(ctx, second, time.Second) }},
				{"Refill", func(l *reserve.Limiter) error { return l.Refill(ctx) }},
				{"Told", func(l *reserve.Limiter) error { return l.Told(ctx, 1) }},
				{"Join", func(l *reserve.Limiter) error { return joint(t, l).Book(ctx, []reserve.Call{{ID: "id"}})[0].Err }},
				{"Pause", func(l *reserve.Limiter) error { return l.Pause(ctx, time.Second, "") }},
				{"PauseKeeping", func(l *reserve.Limiter) error { return l.PauseKeeping(ctx, time.Second, "") }},
			}
			has := func(what string) bool { // other kinds have no level
				return what != "Told" && what != "Refill" || second.Kind() != reserve.KindSlots && (what == "Refill" || second.Kind() != reserve.KindWarmingUp)
			}
			ofIts := func() (state []string) { // of the keys of the second kind
				letter := map[reserve.Kind]string{reserve.KindPaced: "p", reserve.KindWarmingUp: "w", reserve.KindQuota: "q", reserve.KindRolling: "r", reserve.KindSlots: "s"}[second.Kind()]
				for _, key := range []string{"", "key", "a", "b"} {
					for _, k := range scripts.Keys(reserve.DefaultPrefix, group, "api", letter, key) {
						if b.mini.Type(k) == "hash" {
							state = append(state, k+" "+b.mini.HGet(k, "version"))
						} else if b.mini.Exists(k) && !strings.HasSuffix(k, "processes") {
							state = append(state, k)
						}
					}
				}
				return state
			}
			refused := func(when string, l *reserve.Limiter) {
				t.Helper()
				time.Sleep(100 * time.Millisecond) // the turn of a call that failed goes back
				before := ofIts()
				for _, m := range methods {
					if !has(m.what) {
						continue
					}
					err := m.call(l)
					require.ErrorIs(t, err, reserve.ErrInvalid, "%s: %s of %s in place of %s", when, m.what, second, first)
					require.ErrorContains(t, err, first.String(), "%s: %s of %s in place of %s", when, m.what, second, first)
				}
				require.Equal(t, before, ofIts(), "%s: nothing is changed", when)
			}
			require.NoError(t, callOnce(ctx, one), "it is in force")
			refused("before the first call", two)
			refused("with a key", two.For("key"))
			for range 15 { // two rests
				time.Sleep(time.Second)
				_ = callOnce(ctx, one)
			}
			require.ErrorIs(t, callOnce(ctx, two), reserve.ErrInvalid)
			refused("after the first call", two)
			for range 15 {
				time.Sleep(time.Second)
				_ = callOnce(ctx, one)
			}
			refused("after a rest", two)

			if pair%3 == 0 { // it is killed
				require.NoError(t, client.Close())
				time.Sleep(4 * time.Second)
			} else {
				require.NoError(t, one.Close())
			}
			time.Sleep(12 * time.Second)
			for _, m := range methods {
				if has(m.what) {
					require.NoError(t, m.call(two), "nobody uses %s: %s of %s", first, m.what, second)
				}
			}
		})
	})
}

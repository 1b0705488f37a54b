package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// One of two processes is killed while 300 calls wait: the other one uses the limit.
func TestKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		judge := strict(100, 1)
		one0, two := b.process(time.Millisecond), b.process(time.Millisecond)
		need := func(p *process) engine.Need { return one(p.paced("", 100, 1)) }
		dead := one0.closed(50, seconds(20), need(one0), judge, 0)
		group := two.closed(250, seconds(20), need(two), judge, 0)
		time.Sleep(seconds(5))
		before := judge.made()
		one0.hung.Store(true)
		time.Sleep(seconds(8))
		used := float64(judge.made()-before) / 800
		t.Logf("used %.3f of 8 s, refused %d", used, judge.refused)
		require.GreaterOrEqual(t, used, 0.9)
		require.Zero(t, judge.refused, judge.worst)
		one0.hung.Store(false)
		close(b.over)
		group.Wait()
		dead.Wait()
	})
}

// A pause holds all calls back, those whose turns were given, too; they follow in order.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		judge := strict(20, 1)
		var groups []*sync.WaitGroup
		var limits []*wire.Limit
		p := b.process(time.Millisecond)
		for _, p := range []*process{p, b.process(time.Millisecond), b.process(time.Millisecond)} {
			l := p.paced("", 20, 1)
			limits = append(limits, l)
			groups = append(groups, p.closed(10, seconds(20), one(l), judge, 0))
		}
		time.Sleep(seconds(5))
		require.NoError(t, p.Pause(t.Context(), limits[:1], seconds(4), "told so", false))
		time.Sleep(10 * time.Millisecond)
		before := judge.made()
		time.Sleep(seconds(3.98))
		require.Equal(t, before, judge.made(), "none during the pause")
		time.Sleep(seconds(3))
		require.InDelta(t, 60, judge.made()-before, 3, "then at the pace of the limit")

		require.NoError(t, p.Pause(t.Context(), limits[:1], time.Hour, "told so", false))
		time.Sleep(seconds(1))
		before = judge.made()
		require.NoError(t, p.Resume(t.Context(), limits[:1]))
		time.Sleep(seconds(1))
		require.InDelta(t, 20, judge.made()-before, 3, "after the pause has been ended")
		for _, g := range groups {
			g.Wait()
		}
		require.Zero(t, judge.refused, judge.worst)
	})
}

// Another limit holds for the whole fleet, within a horizon.
func TestAnotherLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one0, two := b.process(time.Millisecond), b.process(time.Millisecond)
		a, c := one0.paced("", 100, 1), two.paced("", 100, 1)
		both := &provider{}
		groups := []*sync.WaitGroup{one0.closed(30, seconds(12), one(a), both, 0), two.closed(30, seconds(12), one(c), both, 0)}
		time.Sleep(seconds(2))
		require.NoError(t, one0.Set(t.Context(), a, wire.Terms{A: 100000, B: 1}, 0))
		time.Sleep(250 * time.Millisecond)
		before := both.made()
		time.Sleep(seconds(4))
		require.InDelta(t, 40, both.made()-before, 2)
		require.NoError(t, two.Reset(t.Context(), c))
		before = both.made()
		time.Sleep(seconds(2))
		require.InDelta(t, 200, both.made()-before, 30)
		for _, g := range groups {
			g.Wait()
		}
	})
}

// While replies are lost, what they gave goes back, or lapses where others have had turns since:
// no call is made twice, none is forgotten.
func TestLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		judge := strict(50, 5)
		var groups []*sync.WaitGroup
		for range 3 {
			p := b.process(time.Millisecond)
			groups = append(groups, p.closed(10, seconds(20), one(p.paced("", 50, 5)), judge, 0))
		}
		for range 40 {
			time.Sleep(seconds(0.45))
			b.cut.Store(true)
			time.Sleep(seconds(0.05))
			b.cut.Store(false)
		}
		time.Sleep(seconds(2))
		for _, g := range groups {
			g.Wait()
		}
		t.Logf("used %.3f, refused %d, failed %d", float64(judge.calls)/1000, judge.refused, b.seen[engine.BatchFailed].Load())
		require.Zero(t, judge.refused, judge.worst)
		require.Positive(t, b.seen[engine.BatchFailed].Load())
		require.GreaterOrEqual(t, judge.calls, 500)
	})
}

// Redis loses its data: processes bring what they know of it.
func TestLostData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		judge := strict(50, 20)
		var groups []*sync.WaitGroup
		for range 3 {
			p := b.process(time.Millisecond)
			groups = append(groups, p.closed(10, seconds(20), one(p.paced("", 50, 20)), judge, 0))
		}
		for range 9 {
			time.Sleep(seconds(2))
			b.mini.FlushAll()
		}
		for _, g := range groups {
			g.Wait()
		}
		t.Logf("used %.3f, refused %d", float64(judge.calls)/1000, judge.refused)
		require.Zero(t, judge.refused, judge.worst)
		require.GreaterOrEqual(t, judge.calls, 500, "a loss costs a second")
	})
}

// Tenants under an account: all of the account is used, and each tenant has its own limit.
func TestSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		account := strict(30, 3)
		tenants := map[string]*provider{}
		var groups sync.WaitGroup
		var end = time.Now().Add(seconds(20))
		for range 2 {
			p := b.process(time.Millisecond)
			shared := p.paced("account", 30, 3)
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"} {
				if tenants[name] == nil {
					tenants[name] = strict(2, 2)
				}
				need := engine.Need{Part: engine.Part{Limit: p.paced(name, 2, 2), Cost: 1}, More: []engine.Part{{Limit: shared, Cost: 1}}}
				for range 3 {
					groups.Go(func() {
						for time.Now().Before(end) {
							if _, err := p.Wait(t.Context(), need); err == nil {
								account.call()
								tenants[name].call()
							}
						}
					})
				}
			}
		}
		time.Sleep(seconds(20))
		used := float64(account.made()) / 600
		groups.Wait()
		least, most := 1<<30, 0
		for _, p := range tenants {
			require.Zero(t, p.refused)
			least, most = min(least, p.calls), max(most, p.calls)
		}
		t.Logf("used %.3f, refused %d, tenants %d to %d calls, %.1f script calls per turn", used, account.refused, least, most, float64(b.asks.Load())/float64(account.calls))
		require.Zero(t, account.refused)
		require.GreaterOrEqual(t, used, 0.95)
	})
}

// A call that does not wait is let through if its turn is now, and takes nothing else.
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		need := one(p.paced("", 1, 2))
		need.Now = true
		for i := range 4 {
			_, err := p.Wait(t.Context(), need)
			var not *engine.NotNow
			require.Equal(t, i >= 2, errors.As(err, &not), i)
			if i >= 2 {
				require.InDelta(t, 1, not.Wait.Seconds(), 0.1)
			}
		}
		time.Sleep(time.Second)
		_, err := p.Wait(t.Context(), need)
		require.NoError(t, err, "those that were refused took nothing")
	})
}

// Whose turn would come after its deadline hears so at once, and takes nothing.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		need := one(p.paced("", 1, 1))
		wait := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := p.Wait(ctx, need)
			return err
		}
		require.NoError(t, wait(time.Minute))
		began := time.Now()
		for range 5 {
			require.ErrorIs(t, wait(500*time.Millisecond), errLate)
		}
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.NoError(t, wait(1100*time.Millisecond))
		require.Less(t, time.Since(began), 1050*time.Millisecond, "none of them took a turn")
	})
}

// Close ends all waits, and leaves no place behind.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(time.Millisecond)
		need := one(p.paced("", 1, 1))
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := p.Wait(t.Context(), need)
				errs <- err
			}()
		}
		time.Sleep(time.Second / 2)
		p.Close()
		ended := 0
		for range 10 {
			if err := <-errs; err != nil {
				require.ErrorIs(t, err, errClosed)
				ended++
			}
		}
		require.GreaterOrEqual(t, ended, 9)
		places, err := b.mini.ZMembers(need.Limit.Keys[1])
		require.True(t, err != nil || len(places) == 0, "%v", places)
		_, err = p.Wait(t.Context(), need)
		require.ErrorIs(t, err, errClosed)
	})
}

// A pause is heard before the reply to an ask that came before it: the turn in that reply is void,
// too.
func TestPauseOvertakesAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one0, two := b.process(time.Millisecond), b.process(time.Millisecond)
		a, c := one0.paced("", 10, 1), two.paced("", 10, 1)
		for range 5 { // then they know the way, and listen
			_, err := two.Wait(t.Context(), one(c))
			require.NoError(t, err)
		}
		two.delay.Store(int64(50 * time.Millisecond))
		had := make(chan time.Time, 1)
		go func() {
			if _, err := two.Wait(t.Context(), one(c)); err == nil {
				had <- time.Now()
			}
		}()
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, one0.Pause(t.Context(), []*wire.Limit{a}, seconds(5), "told so", false))
		paused := time.Now()
		require.GreaterOrEqual(t, (<-had).Sub(paused), seconds(4.9))
	})
}

// migrating answers heartbeats as the node of a cluster does that has some of their keys.
type migrating struct{ counter }

func (migrating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == scripts.Beat.Hash() {
			cmd.SetErr(tryAgain("TRYAGAIN Multiple keys request during rehashing of slot"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

type tryAgain string

func (e tryAgain) Error() string { return string(e) }
func (tryAgain) RedisError()     {}

// While a slot of a cluster moves, a heartbeat may be refused whose keys are not all at one node.
// Calls whose keys are have their turns.
func TestHeartbeatsWhileASlotMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		p.client.AddHook(migrating{})
		need := one(p.paced("", 2, 1))
		for range 10 {
			_, err := p.Wait(t.Context(), need)
			require.NoError(t, err)
		}
		require.Zero(t, p.bubble.seen[engine.BatchFailed].Load())
		require.EqualValues(t, 10, need.Limit.Calls.Load())
	})
}

// A process that pauses or sets limits, and makes no calls, forgets them.
func TestWhatHappenedToLimitsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		for n := range 4 * 150 {
			limits := []*wire.Limit{p.paced(strconv.Itoa(n), 10, 1)}
			require.NoError(t, p.Pause(t.Context(), limits, time.Second, "", false))
			p.Still(limits, time.Now().Add(time.Second))
			if n%150 == 149 {
				time.Sleep(2 * time.Minute)
			}
		}
		moves, still := p.Remembered()
		require.LessOrEqual(t, moves, 2*150+100)
		require.LessOrEqual(t, still, 150)
	})
}

package reserve_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

const loading = "LOADING Redis is loading the dataset in memory"

// enduring is a process of the fleet with a policy for outages.
func (b *bubble) enduring(limit reserve.Limit, policy reserve.Policy) *reserve.Limiter {
	return b.with(reserve.Config{Limit: limit, Outage: reserve.Outage{Policy: policy}})
}

func (b *bubble) with(config reserve.Config) *reserve.Limiter {
	config.Name = "api"
	l, err := reserve.New(b.client(), config)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

// load calls the API all the time, with some callers in each process, and returns
// how to stop.
func load(t testing.TB, api *provider.Provider, callers int, fleet ...*reserve.Limiter) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	for _, l := range fleet {
		for range callers {
			all.Go(func() {
				for {
					err := l.Wait(ctx)
					if ctx.Err() != nil {
						return
					}
					require.NoError(t, err)
					api.Judge(1)
				}
			})
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// calls is how many calls an API saw in a span of time, and how many of these it
// refused.
func calls(api *provider.Provider, from, to time.Time) (calls, refused int) {
	for _, c := range api.History() {
		if !c.At.Before(from) && c.At.Before(to) {
			calls++
			if c.Refused {
				refused++
			}
		}
	}
	return calls, refused
}

// While Redis is away, four processes that called it before go on at 0.9 of the
// rate together; when it is back they change over at one moment. The provider
// bears a burst of one permit and one for each process.
func TestLocalPolicyKeepsTheFleetGoing(t *testing.T) {
	inParallel(t)
	const rate = 100
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			api := provider.New(provider.TokenBucket(rate, 5))
			var fleet []*reserve.Limiter
			for range 4 {
				fleet = append(fleet, b.enduring(reserve.PerSecond(rate), reserve.PolicyLocal))
			}
			stop := load(t, api, 25, fleet...)
			time.Sleep(3 * time.Second)
			b.redis.SetError(loading)
			away := time.Now()
			time.Sleep(20 * time.Second)
			if lost {
				b.redis.FlushAll()
			}
			b.redis.SetError("")
			back := time.Now()
			time.Sleep(12 * time.Second)
			stop()

			before, _ := calls(api, away.Add(-2*time.Second), away)
			during, _ := calls(api, away.Add(2*time.Second), back)
			change, _ := calls(api, back, back.Add(2*time.Second))
			after, _ := calls(api, back.Add(2*time.Second), back.Add(12*time.Second))
			s := api.Summary()
			t.Logf("lost %v: %d in 2 s before, %d in 18 s during, %d in 2 s of change, %d in 10 s after; %d refused",
				lost, before, during, change, after, s.Refused)
			for _, c := range api.History() {
				if c.Refused {
					t.Logf("refused %v after it went away, %v after it was back", c.At.Sub(away), c.At.Sub(back))
				}
			}
			require.Zero(t, s.Refused)
			require.InDelta(t, 2*rate, before, 5)
			require.InDelta(t, 18*rate*0.9, during, 10)
			require.GreaterOrEqual(t, change, int(2*rate*0.8))
			require.GreaterOrEqual(t, after, int(10*rate*0.97))
		})
	}
}

// A process that never reached Redis uses its configured share.
func TestShareOfAProcessThatKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.redis.SetError(loading)
		api := provider.New(provider.TokenBucket(20, 1))
		l := b.with(reserve.Config{Limit: reserve.PerSecond(100), Outage: reserve.Outage{Share: 0.2}})
		stop := load(t, api, 10, l)
		time.Sleep(11 * time.Second)
		stop()
		s := api.Summary()
		require.Zero(t, s.Refused, "by a provider that allows a fifth of the rate")
		require.InDelta(t, 200, s.Requests, 20)
	})
}

// A process remembers how many there were when Redis lost its data, and with it who
// is there; for a minute, as they may have gone.
func TestShareOutlivesLostData(t *testing.T) {
	for _, c := range []struct {
		later     time.Duration
		perSecond float64
	}{{0, 9}, {2 * time.Minute, 18}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			one, two := b.enduring(reserve.PerSecond(20), reserve.PolicyLocal), b.enduring(reserve.PerSecond(20), reserve.PolicyLocal)
			require.NoError(t, one.Wait(t.Context()))
			require.NoError(t, two.Wait(t.Context()))
			require.NoError(t, one.Wait(t.Context()))
			b.redis.FlushAll()
			time.Sleep(c.later)
			require.NoError(t, one.Wait(t.Context()))
			b.redis.SetError(loading)
			api := provider.New()
			stop := load(t, api, 5, one)
			time.Sleep(2 * time.Second)
			from := time.Now()
			time.Sleep(10 * time.Second)
			stop()
			made, _ := calls(api, from, time.Now())
			require.InDelta(t, 10*c.perSecond, made, 3)
		})
	}
}

// Under wait nobody calls until Redis is back; then all go on, in order.
func TestWaitPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(10), reserve.PolicyWait)
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		away := time.Now()
		var all sync.WaitGroup
		order := standInLine(t, l, 10, &all)
		all.Go(func() {
			r, err := l.Enter(t.Context(), "job", 1)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(away), time.Minute)
			require.NoError(t, r.Cancel(t.Context()))
		})
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := l.AllowN(short, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = l.Enter(short, "other", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute - time.Since(away))
		require.Empty(t, *order)
		b.redis.SetError("")
		all.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, *order)
		require.LessOrEqual(t, time.Since(away), time.Minute+3*time.Second)
	})
}

// What breaks some calls at one moment is no outage: they are tried again.
func TestFailuresAtOneMomentAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, w := b.wiredWith(t, reserve.Config{
			Limit: reserve.PerSecond(10), Outage: reserve.Outage{Policy: reserve.PolicyFail},
		})
		require.NoError(t, l.Wait(t.Context()))
		w.lose.Store(3)
		require.NoError(t, l.Wait(t.Context()))
		w.fail.Store(3)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Close())
	})
}

// A process looks for Redis at its interval, however long an attempt takes: so it is
// back before the others' line goes on.
func TestAttemptsThatTakeLongDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, w := b.wired(t, reserve.PerSecond(100))
		l.SetJitter(func() float64 { return 1 }) // the longest interval
		stop := load(t, provider.New(), 10, l)
		time.Sleep(time.Second)
		b.redis.SetError(loading)
		w.request.Store(int64(400 * time.Millisecond))
		time.Sleep(10 * time.Second)
		w.scripts.Store(0)
		time.Sleep(30 * time.Second)
		require.InDelta(t, 30/0.75, w.scripts.Load(), 2)
		b.redis.SetError("")
		stop()
		require.NoError(t, l.Close())
	})
}

// A process whose later call was carried out comes back all the same.
func TestComesBackUnderALaterSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, w := b.wired(t, reserve.PerSecond(10))
		l.SetMember("me")
		require.NoError(t, l.Wait(t.Context()))
		stop := load(t, provider.New(), 10, l)
		b.redis.SetError(loading)
		time.Sleep(3 * time.Second)
		b.redis.SetError("")
		for serial := range 10 { // as if these had been under way
			args := []any{100_000, 1, 0, 0, 0, 0, "me", 10 + serial, 0, 1, -1, serial, 0}
			require.NoError(t, lua.Take.Run(t.Context(), b.client(), lua.Keys(reserve.DefaultPrefix, "api", ""), args...).Err())
		}
		time.Sleep(10 * time.Second)
		w.scripts.Store(0)
		time.Sleep(10 * time.Second)
		require.Greater(t, w.scripts.Load(), int64(80), "more than the attempts to come back")
		stop()
		require.NoError(t, l.Close())
	})
}

// Under fail a call is tried until the breaker opens, and then not even that.
func TestFailPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, w := b.wiredWith(t, reserve.Config{
			Limit: reserve.PerSecond(10), Outage: reserve.Outage{Policy: reserve.PolicyFail},
		})
		l.SetJitter(func() float64 { return 0.5 })
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		w.scripts.Store(0)
		start := time.Now()
		require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrUnavailable)
		// Pauses of 50, 100, 200 and 400 ms: the first, the fourth and the fifth count.
		require.InDelta(t, 750*time.Millisecond, time.Since(start), float64(time.Millisecond))
		require.Equal(t, int64(5), w.scripts.Load())
		start = time.Now()
		for _, call := range []func() error{
			func() error { return l.Wait(t.Context()) },
			func() error { _, err := l.Allow(t.Context()); return err },
			func() error { _, err := l.Reserve(t.Context()); return err },
			func() error { _, err := l.Enter(t.Context(), "id", 1); return err },
			func() error { _, err := l.Claim(t.Context(), "id", 1); return err },
			func() error { _, err := l.Cancel(t.Context(), "id", 1); return err },
		} {
			err := call()
			require.ErrorIs(t, err, reserve.ErrUnavailable)
			require.ErrorContains(t, err, "LOADING")
		}
		require.Zero(t, time.Since(start))
		require.Equal(t, int64(5), w.scripts.Load(), "no attempt is made")
		time.Sleep(time.Second)
		require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrUnavailable)
		require.Equal(t, int64(6), w.scripts.Load(), "one is, after a while")
		b.redis.SetError("")
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Close())
	})
}

// ended is a context that ends once a call has begun.
type ended struct {
	context.Context
	asked bool
}

func (e *ended) Err() error {
	if !e.asked {
		e.asked = true
		return nil
	}
	return context.Canceled
}

// A call that fails as its context ends says that its context ended.
func TestFailsAsItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(10), reserve.PolicyFail)
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrUnavailable)
		for name, call := range map[string]func(ctx context.Context) error{
			"wait":    l.Wait,
			"allow":   func(ctx context.Context) error { _, err := l.Allow(ctx); return err },
			"reserve": func(ctx context.Context) error { _, err := l.Reserve(ctx); return err },
		} {
			require.ErrorIs(t, call(t.Context()), reserve.ErrUnavailable, name)
			require.ErrorIs(t, call(&ended{Context: t.Context()}), context.Canceled, name)
		}
	})
}

// Under open all calls go through, and are charged: at most a second's worth.
func TestOpenPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(10), reserve.PolicyOpen)
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		for range 100 {
			require.NoError(t, l.Wait(t.Context()))
			ok, err := l.Allow(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			r, err := l.Enter(t.Context(), "id", 1)
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
		}
		require.Zero(t, time.Since(start))
		time.Sleep(2 * time.Second)
		b.redis.SetError("")
		start = time.Now()
		require.NoError(t, l.Wait(t.Context()), "goes through, and Redis is looked for")
		synctest.Wait()
		require.NoError(t, l.Wait(t.Context()))
		require.InDelta(t, time.Second, time.Since(start), float64(150*time.Millisecond))
	})
}

// In an outage the local policy serves every kind of call, in order of arrival.
func TestLocalPolicyServesEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10).Burst(5))
		for range 5 {
			require.NoError(t, l.Wait(t.Context()))
		}
		b.redis.SetError(loading)
		require.NoError(t, l.WaitN(t.Context(), 2))
		start := time.Now()
		ok, err := l.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok, "not yet")
		entered, err := l.Enter(t.Context(), "job", 3)
		require.NoError(t, err)
		require.False(t, entered.Final())
		require.Zero(t, entered.Number())
		require.InDelta(t, 333*time.Millisecond, entered.Delay(), float64(2*time.Millisecond))
		reserved, err := l.ReserveN(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, entered.Wait(t.Context()))
		require.InDelta(t, 333*time.Millisecond, time.Since(start), float64(2*time.Millisecond))
		require.False(t, entered.Lapsed())
		require.NoError(t, reserved.Wait(t.Context()))
		require.InDelta(t, 556*time.Millisecond, time.Since(start), float64(2*time.Millisecond))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.WaitN(short, 5), reserve.ErrWouldMissDeadline)
		time.Sleep(600 * time.Millisecond)
		ok, err = l.AllowN(t.Context(), 4)
		require.NoError(t, err)
		require.True(t, ok)
		for _, p := range l.LineUp(t.Context(), jobs("later", 2)) {
			require.ErrorIs(t, p.Err, reserve.ErrUnavailable, "nobody calls now, so nobody needs a turn")
		}
		b.redis.SetError("")
		time.Sleep(2 * time.Second)
		claimed, err := l.Claim(t.Context(), "job-2", 1)
		require.NoError(t, err)
		require.NoError(t, claimed.Wait(t.Context()))
	})
}

// Credentials that were never right are an error at once, whatever the policy;
// those that become wrong make an outage.
func TestDeniedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		const denied = "NOPERM User limiter has no permissions to run the 'evalsha' command"
		b.redis.SetError(denied)
		for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyWait, reserve.PolicyFail, reserve.PolicyOpen} {
			l := b.enduring(reserve.PerSecond(10), policy)
			for range 5 {
				require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrDenied)
				_, err := l.Enter(t.Context(), "id", 1)
				require.ErrorIs(t, err, reserve.ErrDenied)
			}
		}
		b.redis.SetError("")
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(denied)
		require.NoError(t, l.Wait(t.Context()), "the local policy rules")
	})
}

// An operator hears of an outage twice, however many calls it concerns.
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var log strings.Builder
		l := b.with(reserve.Config{
			Limit:  reserve.PerSecond(100),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		l.TurnDeaf() // on a real Redis no news can be heard here, which is logged, too
		stop := load(t, provider.New(), 10, l)
		time.Sleep(time.Second)
		b.redis.SetError(loading)
		time.Sleep(10 * time.Second)
		b.redis.SetError("")
		time.Sleep(5 * time.Second)
		stop()
		require.NoError(t, l.Close())
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2, log.String())
		require.Contains(t, lines[0], "level=WARN")
		require.Contains(t, lines[0], "policy=local")
		require.Contains(t, lines[0], "LOADING")
		require.Contains(t, lines[1], "level=INFO")
		require.Contains(t, lines[1], "away=")
	})
}

func TestParsePolicy(t *testing.T) {
	for _, name := range []string{"local", "wait", "fail", "open"} {
		p, err := reserve.ParsePolicy(name)
		require.NoError(t, err)
		require.Equal(t, name, string(p))
	}
	var p reserve.Policy
	require.NoError(t, p.UnmarshalText([]byte("wait")))
	require.Equal(t, reserve.PolicyWait, p)
	require.ErrorIs(t, p.UnmarshalText(nil), reserve.ErrInvalid)
	_, err := reserve.ParsePolicy("Local")
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, `"Local"`)
	require.False(t, errors.Is(err, reserve.ErrUnavailable))
}

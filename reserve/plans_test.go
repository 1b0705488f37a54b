package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// known is the longest time in which waiting calls follow another plan.
const known = 500 * time.Millisecond

// planned is a process whose plans of customers are its own: what it has read from the database.
type planned struct {
	*reserve.Limiter
	plans *plans
	lag   time.Duration // its plans are as old as that
	log   *book
}

func (b *bubble) planned(config reserve.Config) *planned {
	p := &planned{plans: &plans{rows: map[string]plan{}}, log: &book{}}
	config.LimitOf = p.plans.limitOf
	config.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	p.Limiter = b.with(config)
	return p
}

// plannedFleet is processes that share a database.
type plannedFleet struct {
	testing.TB
	*rand.Rand
	b         *bubble
	processes []*planned
	logs      map[string]*log
	rows      map[string]plan
	changes   map[string][]changed
	changed   map[string]time.Duration // when the row changed last
	slowest   time.Duration            // until Redis knew of a change, of customers at which calls wait
	mu        sync.Mutex
	begun     time.Time
	calls     sync.WaitGroup
	reading   sync.WaitGroup
}

func newPlannedFleet(t testing.TB, seed uint64, processes int) *plannedFleet {
	f := &plannedFleet{TB: t, Rand: rand.New(rand.NewPCG(seed, 37)), b: newBubble(t), begun: time.Now(), logs: map[string]*log{}, rows: map[string]plan{},
		changes: map[string][]changed{}, changed: map[string]time.Duration{}}
	for range processes {
		f.processes = append(f.processes, f.b.planned(reserve.Config{Limit: reserve.PerSecond(20).Burst(2)}))
	}
	return f
}

// hear notes when Redis puts another plan in force. It returns when it hears no more.
func (f *plannedFleet) hear(ctx context.Context) {
	client := f.b.client()
	subscribed := client.PSubscribe(ctx, "fleetpace*")
	_, err := subscribed.Receive(ctx)
	require.NoError(f, err)
	f.reading.Go(func() {
		<-ctx.Done()
		_ = subscribed.Close()
	})
	f.reading.Go(func() {
		for m := range subscribed.Channel() {
			words := strings.SplitN(m.Payload, " ", 4)
			if len(words) < 4 || !strings.Contains(words[1], "limit:") {
				continue
			}
			micros, _ := strconv.ParseInt(words[2], 10, 64)
			text := strings.Fields(f.b.mini.HGet(words[3], "limit"))
			interval, _ := strconv.ParseFloat(text[0], 64)
			burst, _ := strconv.ParseFloat(text[1], 64)
			at := time.UnixMicro(micros).Sub(f.begun)
			f.mu.Lock()
			for customer := range f.logs {
				if strings.HasSuffix(words[3], ":"+customer) {
					f.changes[customer] = append(f.changes[customer], changed{at, 1e6 / interval, burst})
					if row := f.rows[customer].limit; row.MaxBurst() == int(burst) && int(row.Rate()*1e3) == int(1e9/interval) {
						f.slowest = max(f.slowest, at-f.changed[customer])
					}
				}
			}
			f.mu.Unlock()
		}
	})
}

// write changes a row of the database. Each process reads it after some time of its own, or never.
func (f *plannedFleet) write(customer string, limit reserve.Limit) {
	row := plan{limit, time.Now()}
	f.mu.Lock()
	f.rows[customer], f.changed[customer] = row, time.Since(f.begun)
	f.mu.Unlock()
	for _, p := range f.processes {
		switch {
		case p.lag == 0:
			p.plans.set(customer, row.limit, row.updated)
		case p.lag > 0:
			f.reading.Go(func() {
				time.Sleep(p.lag)
				p.plans.set(customer, row.limit, row.updated)
			})
		}
	}
}

// busy lets n calls of each process wait for a customer until the context ends.
func (f *plannedFleet) busy(ctx context.Context, customer string, n int) {
	f.mu.Lock()
	l := newLog()
	l.begun = f.begun
	f.logs[customer] = l
	limit := f.rows[customer].limit
	f.changes[customer] = []changed{{0, limit.Rate(), float64(limit.MaxBurst())}}
	f.mu.Unlock()
	for i, p := range f.processes {
		for range n {
			f.calls.Go(func() {
				for p.For(customer).Wait(ctx) == nil {
					l.mu.Lock()
					l.calls = append(l.calls, call{l.now(), 1, i})
					l.mu.Unlock()
				}
			})
		}
	}
}

// Plans change up and down while 51 calls wait at some customers, and others call now and then. The
// processes read the changes at once, or late, or never. The calls that wait follow, nothing is refused by a
// provider that follows, and nothing is lost.
func TestPlansChangeWhileCallsWait(t *testing.T) {
	seeds := uint64(8)
	if redistest.Budget(raceDetector, true) {
		seeds = 2
	}
	var used, possible float64
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newPlannedFleet(t, seed, 3)
				customers := []string{}
				for i := range 40 {
					customers = append(customers, fmt.Sprint("customer-", i))
				}
				for _, c := range customers {
					f.write(c, f.limit())
				}
				f.processes[1].lag = time.Duration(f.IntN(4)) * 700 * time.Millisecond
				f.processes[2].lag = -1 // it knows the first rows only
				ctx, cancel := context.WithCancel(t.Context())
				hearing, deaf := context.WithCancel(t.Context())
				f.hear(hearing)
				waiting := customers[:3]
				for _, c := range waiting {
					f.busy(ctx, c, 17)
				}
				others := rand.New(rand.NewPCG(seed, 38))
				f.calls.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(30 * time.Millisecond)
						_, err := f.processes[others.IntN(3)].For(customers[3+others.IntN(37)]).Allow(ctx)
						assert.True(t, err == nil || ctx.Err() != nil, err)
					}
				})
				time.Sleep(settling)
				for range 3 {
					f.write(waiting[f.IntN(3)], f.limit())
					f.write(customers[3+f.IntN(37)], f.limit())
					time.Sleep(time.Duration(1400+f.IntN(800)) * time.Millisecond)
				}
				until := time.Since(f.begun)
				cancel()
				f.calls.Wait()
				deaf()
				f.reading.Wait()
				assert.LessOrEqual(t, f.slowest, known)
				for _, c := range waiting {
					got, want := f.judge(c, until)
					used, possible = used+got, possible+want
				}
			})
		})
	}
	t.Logf("%.3f of the permits were used", used/possible)
	assert.GreaterOrEqual(t, used/possible, 0.97)
}

func (f *plannedFleet) limit() reserve.Limit {
	return reserve.PerSecond(float64(5 + f.IntN(60))).Burst(1 + f.IntN(4))
}

// judge returns the permits of a customer that were used, and those that the plans in force had.
func (f *plannedFleet) judge(customer string, until time.Duration) (used, possible float64) {
	calls, changes := f.logs[customer].all(), f.changes[customer]
	referee := follower{changes: changes}
	assert.Zero(f, referee.refused(calls), "calls that are refused: %v of %v", len(calls), changes)
	last := changes[len(changes)-1]
	row := f.rows[customer].limit
	assert.InDelta(f, row.Rate(), last.rate, 0.01, "the newest plan is in force: %v", customer)
	for k, c := range changes {
		end := until
		if k+1 < len(changes) {
			end = changes[k+1].at
		}
		possible += max(0, end-max(c.at, settling)).Seconds() * c.rate
	}
	for _, c := range calls {
		if c.after >= settling && c.after < until {
			used++
		}
	}
	f.Logf("%s: %.3f of %.0f permits, %d plans", customer, used/possible, possible, len(changes))
	return used, possible
}

// Calls that wait keep their order when the plan changes, and nobody has to call for that.
func TestWaitingCallsFollowAPlanInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		from, to reserve.Limit
		least    int // calls in 5 s
	}{
		"up":                   {reserve.PerMinute(1), reserve.PerSecond(20), 70},
		"up, with a burst":     {reserve.PerMinute(1), reserve.PerSecond(20).Burst(10), 70},
		"down":                 {reserve.PerSecond(5), reserve.PerMinute(1), 6},
		"another rolling":      {reserve.Rolling(2, time.Hour), reserve.Rolling(30, time.Hour), 30},
		"a shorter rolling":    {reserve.Rolling(20, time.Hour), reserve.Rolling(20, time.Second), 80},
		"another quota":        {reserve.Quota(2, reserve.CalendarHour), reserve.Quota(30, reserve.CalendarHour), 30},
		"a rate to a quota":    {reserve.PerMinute(1), reserve.Quota(30, reserve.CalendarHour), 29},
		"a rate to a rolling":  {reserve.PerMinute(1), reserve.Rolling(30, time.Hour), 29},
		"a quota to a rate":    {reserve.Quota(2, reserve.CalendarDay), reserve.PerSecond(20).Burst(10), 50},
		"a rolling to warm-up": {reserve.Rolling(2, time.Hour), reserve.PerSecond(20).WarmUp(time.Second), 30},
		"warm-up to a quota":   {reserve.PerMinute(1).WarmUp(time.Minute), reserve.Quota(30, reserve.CalendarDay).In(zone("Europe/Berlin")), 29},
		"another calendar":     {reserve.Quota(2, reserve.CalendarDay), reserve.Quota(30, reserve.CalendarHour).In(zone("Asia/Kolkata")), 30},
		"another quota, lower": {reserve.Quota(30, reserve.CalendarHour), reserve.Quota(35, reserve.CalendarHour), 35},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				p := b.planned(reserve.Config{Limit: c.from})
				other := b.planned(reserve.Config{Limit: c.from}) // it hears of no change
				p.plans.set("acme", c.from, time.Now())
				other.plans.set("acme", c.from, time.Now())
				ctx, cancel := context.WithCancel(t.Context())
				for _, of := range []*planned{p, other} { // they are connected
					_, err := of.For("another").Allow(ctx)
					require.NoError(t, err)
				}
				l := newLog()
				var busy sync.WaitGroup
				for i := range 100 {
					of := []*planned{p, other}[i%2]
					busy.Go(func() {
						if of.For("acme").Wait(ctx) == nil {
							l.mu.Lock()
							l.calls = append(l.calls, call{l.now(), 1, i})
							l.mu.Unlock()
						}
					})
					time.Sleep(10 * time.Millisecond)
				}
				p.plans.set("acme", c.to, time.Now())
				time.Sleep(known)
				in := state(t, other.For("acme"))
				require.InDelta(t, c.to.Rate(), in.Rate, 1e-9, "in force")
				require.Equal(t, c.to.MaxBurst(), in.Burst)
				time.Sleep(5*time.Second - known)
				cancel()
				busy.Wait()
				calls := l.all()
				require.GreaterOrEqual(t, len(calls), c.least)
				require.LessOrEqual(t, len(calls), 100)
				for i, y := range calls {
					for _, x := range calls[:i] { // what is due within a horizon goes to the process that asks first, and so does what is due in one window
						inAnyOrder, paced := horizon, c.from.Kind() == reserve.KindPaced && c.to.Kind() == reserve.KindPaced
						switch same := (x.who-y.who)%2 == 0; {
						case same && paced:
							inAnyOrder = 3 * way
						case !same && !paced:
							inAnyOrder = time.Minute
						}
						require.True(t, x.who < y.who || y.after-x.after <= inAnyOrder, "in order: %v before %v of %v", x, y, calls)
					}
				}
			})
		})
	}
}

// A process with an older plan follows: what it says and allows is the newer one.
func TestOlderPlansFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		config := reserve.Config{Limit: reserve.PerSecond(1)}
		older, newer := b.planned(config), b.planned(config)
		before := time.Now()
		older.plans.set("acme", reserve.PerSecond(2).Burst(3), before)
		newer.plans.set("acme", reserve.PerSecond(10).Burst(30), before.Add(time.Second))
		acme := older.For("acme")
		require.Equal(t, "2/s burst 3", acme.Limit().String())
		require.NoError(t, acme.Wait(ctx))
		require.ErrorContains(t, acme.WaitN(ctx, 4), `at most the burst of "api/acme", which is 3 (2/s burst 3), got 4`)

		require.NoError(t, newer.For("acme").WaitN(ctx, 20), "the highest cost is that of the newer one")
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "10/s burst 30", acme.Limit().String())
		require.NoError(t, acme.WaitN(ctx, 30))
		require.ErrorContains(t, acme.WaitN(ctx, 31), "10/s burst 30")
		require.ErrorIs(t, acme.WaitN(ctx, 31), reserve.ErrExceedsBurst)
		require.Equal(t, "10/s burst 30", state(t, acme).Limit.String())
		require.Contains(t, older.log.String(), "follows")
		require.Equal(t, 1, strings.Count(older.log.String(), "follows"), older.log)
		require.NotContains(t, newer.log.String(), "follows")
		require.NotContains(t, older.log.String(), "override")

		t.Log("it brings the newer one back after a loss of data")
		require.NoError(t, newer.Close())
		b.mini.FlushAll()
		time.Sleep(2 * time.Second)
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "10/s burst 30", state(t, acme).Limit.String())

		t.Log("one that has not asked yet learns the highest cost from Redis")
		third := b.planned(config)
		require.NoError(t, third.For("acme").WaitN(ctx, 30))
		require.Equal(t, "10/s burst 30", third.For("acme").Limit().String())
		fourth := b.planned(config)
		require.ErrorContains(t, fourth.For("acme").WaitN(ctx, 31), `at most the burst of "api/acme", which is 30 (10/s burst 30), got 31`)

		t.Log("and its own next version is in force again")
		older.plans.set("acme", reserve.PerSecond(4), before.Add(2*time.Second))
		require.Equal(t, "4/s", acme.Limit().String())
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "4/s", state(t, third.For("acme")).Limit.String())
	})
}

// A change of a limit without a newer version is logged, at most once a minute.
func TestPlansWithoutANewVersionAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		p, now := b.planned(reserve.Config{Limit: reserve.PerSecond(1)}), time.Now()
		p.plans.set("acme", reserve.PerSecond(50), now)
		require.NoError(t, p.For("acme").Wait(ctx))
		require.Empty(t, p.log.String())
		for _, limit := range []reserve.Limit{reserve.PerSecond(60), reserve.PerSecond(50).Burst(2)} {
			p.plans.set("acme", limit, now)
			require.NoError(t, p.For("acme").Wait(ctx))
			require.Contains(t, p.log.String(), `limit=api/acme in_force=50/s returned=60/s`)
			require.Equal(t, 1, strings.Count(p.log.String(), "same version"), p.log)
			require.Equal(t, "50/s", p.For("acme").Limit().String())
		}
		def, log, versions := slog.Default(), &book{}, int64(0)
		defer slog.SetDefault(def)
		slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
		quiet := b.with(reserve.Config{Name: "quiet", Limit: reserve.PerSecond(1), LimitOf: func(string) (reserve.Limit, int64) {
			versions++
			return reserve.PerSecond(float64(versions)), 1
		}})
		require.NoError(t, quiet.For("acme").Wait(ctx))
		require.NoError(t, quiet.For("acme").Wait(ctx))
		require.Equal(t, 1, strings.Count(log.String(), "same version"), "without a Logger, too: %s", log)
	})
}

// An override of a key counts while it lasts, whatever plans come, and then the newest plan does.
func TestOverridesGoBeforePlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		p := b.planned(reserve.Config{Limit: reserve.PerSecond(1)})
		p.plans.set("acme", reserve.PerSecond(2), time.Now())
		acme := p.For("acme")
		require.NoError(t, acme.Wait(ctx))
		require.NoError(t, acme.SetLimit(ctx, reserve.PerSecond(50), 10*time.Second))
		p.plans.set("acme", reserve.PerSecond(4), time.Now())
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "50/s", state(t, acme).Limit.String())
		require.Equal(t, "4/s", acme.Limit().String())
		time.Sleep(11 * time.Second)
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "4/s", state(t, acme).Limit.String())
	})
}

// Lost data: the newest plan is in force again within 2 s, though the calls of a process with an older
// one come first.
func TestPlansComeBackAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		f := &plannedFleet{b: b, TB: t, begun: time.Now(), rows: map[string]plan{}, changes: map[string][]changed{}, changed: map[string]time.Duration{}, logs: map[string]*log{}}
		for range 3 {
			f.processes = append(f.processes, b.planned(reserve.Config{Limit: reserve.PerSecond(5)}))
		}
		f.write("acme", reserve.PerSecond(5))
		f.processes[0].lag, f.processes[1].lag = -1, -1
		time.Sleep(time.Second)
		f.write("acme", reserve.PerSecond(50))
		ctx, cancel := context.WithCancel(t.Context())
		f.busy(ctx, "acme", 10)
		time.Sleep(2 * time.Second)
		for range 3 {
			b.mini.FlushAll()
			time.Sleep(2 * time.Second)
			require.Equal(t, 50., state(t, f.processes[0].For("acme")).Rate)
			from := f.logs["acme"].now()
			time.Sleep(time.Second)
			require.InDelta(t, 50, len(f.logs["acme"].between(from, from+time.Second)), 2)
		}
		cancel()
		f.calls.Wait()
		f.reading.Wait()
	})
}

// One call may need the limits of several customers and others; each follows its plan.
func TestPlansOfJoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		client := b.client()
		rows := &plans{rows: map[string]plan{}}
		customers := b.on(client, reserve.Config{Name: "customers", Group: "g", Limit: reserve.PerMinute(1), LimitOf: rows.limitOf})
		all := b.on(client, reserve.Config{Name: "all", Group: "g", Limit: reserve.PerSecond(100).Burst(10)})
		j := joint(t, customers.For("acme"), all)
		require.NoError(t, j.Wait(ctx))
		var busy sync.WaitGroup
		begun := time.Now()
		for range 20 {
			busy.Go(func() { assert.NoError(t, j.Wait(ctx)) })
		}
		time.Sleep(time.Second)
		rows.set("acme", reserve.PerSecond(10), time.Now())
		busy.Wait()
		require.LessOrEqual(t, time.Since(begun), time.Second+known+2*time.Second)
		require.ErrorContains(t, j.Wait(ctx, 2, 1), `costs[0]: must be at most the burst of "customers/acme", which is 1 (10/s)`)
	})
}

// What LimitOf returns is checked, for each key. Calls without a key do not ask it.
func TestPlansAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		answers := map[string]func() (reserve.Limit, int64){
			"zero":     func() (reserve.Limit, int64) { return reserve.Limit{}, 1 },
			"kind":     func() (reserve.Limit, int64) { return reserve.Concurrent(5), 1 },
			"negative": func() (reserve.Limit, int64) { return reserve.PerSecond(1), -1 },
			"nanos":    func() (reserve.Limit, int64) { return reserve.PerSecond(1), time.Now().AddDate(26, 0, 0).UnixNano() },
			"panics":   func() (reserve.Limit, int64) { panic(errors.New("no database")) },
			"good":     func() (reserve.Limit, int64) { return reserve.PerSecond(3), reserve.MaxVersion },
			"none":     func() (reserve.Limit, int64) { return reserve.Rolling(5, time.Minute), 0 },
		}
		l := b.with(reserve.Config{Limit: reserve.PerSecond(7), LimitOf: func(key string) (reserve.Limit, int64) { return answers[key]() }})
		for key, text := range map[string]string{
			"zero":     `invalid Limit: is not set: use for example reserve.PerSecond(10), as Config.LimitOf returned for the key "zero"`,
			"kind":     `invalid Config.LimitOf: must return slots if Config.Limit has slots (7/s), and only then, got "5 at once" for the key "kind": to bound both, use All`,
			"negative": `invalid Config.LimitOf: must return a version from 0 to 4503599627370496, got -1 for the key "negative"`,
			"nanos":    `must return a version from 0 to 4503599627370496, got`,
			"panics":   `invalid Config.LimitOf: must not panic, but for the key "panics" it panicked: no database`,
		} {
			err := l.For(key).Wait(ctx)
			require.ErrorIs(t, err, reserve.ErrInvalid)
			require.ErrorContains(t, err, text)
			require.ErrorIs(t, joint(t, l.For(key)).Wait(ctx), reserve.ErrInvalid)
			require.Equal(t, "7/s", l.For(key).Limit().String())
		}
		for key, limit := range map[string]string{"good": "3/s", "none": "7/s"} {
			require.NoError(t, l.For(key).Wait(ctx))
			require.Equal(t, limit, state(t, l.For(key)).Limit.String())
		}
		require.NoError(t, l.Wait(ctx))
		require.Equal(t, "7/s", state(t, l).Limit.String())
	})
}

// After the last call nothing is kept.
func TestPlansLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		p := b.planned(reserve.Config{Limit: reserve.PerSecond(1)})
		const customers = 300
		for i := range customers {
			customer := fmt.Sprint("customer-", i)
			p.plans.set(customer, reserve.PerSecond(float64(1+i%9)).Burst(1+i%5), time.Now())
			require.NoError(t, p.For(customer).Wait(ctx))
		}
		require.LessOrEqual(t, len(b.mini.Keys()), customers*11/10)
		require.NoError(t, p.Close())
		b.mini.FastForward(0)
		time.Sleep(2 * time.Minute)
		left := slices.DeleteFunc(b.mini.Keys(), func(key string) bool { return !strings.Contains(key, "customer") })
		require.Empty(t, left)
	})
}

// A call waits again because its turn came too late. It follows another plan as other waiting calls do.
func TestACallThatWaitsAgainFollowsItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var version atomic.Int64
		l := newBubble(t).with(reserve.Config{Limit: reserve.PerMinute(1), LimitOf: func(string) (reserve.Limit, int64) {
			if v := version.Load(); v > 0 {
				return reserve.PerSecond(100).Burst(10), v
			}
			return reserve.PerMinute(1), 0
		}})
		r, err := l.For("a").Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		time.Sleep(time.Second)
		require.NoError(t, r.Late(0, false))
		time.AfterFunc(2*time.Second, func() { version.Store(1) })
		began := time.Now()
		require.NoError(t, r.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(began), 2*time.Second+known)
	})
}

// Plans that take long to look up are looked up one after the other.
func TestSlowPlansAreLookedUpOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		var now, most, all atomic.Int64
		l := newBubble(t).with(reserve.Config{Limit: reserve.PerMinute(1), LimitOf: func(string) (reserve.Limit, int64) {
			if slow.Load() {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				all.Add(1)
				time.Sleep(time.Second)
			}
			return reserve.PerMinute(1), 0
		}})
		ctx, stop := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, l.For(key).Wait(ctx))
			waits.Go(func() { _ = l.For(key).Wait(ctx) })
		}
		time.Sleep(time.Second)
		slow.Store(true)
		time.Sleep(20 * time.Second)
		slow.Store(false)
		require.EqualValues(t, 1, most.Load())
		require.Greater(t, all.Load(), int64(10))
		stop()
		waits.Wait()
		time.Sleep(3 * time.Second) // the last look-ups end
	})
}

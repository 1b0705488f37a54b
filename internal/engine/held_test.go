package engine_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
)

func TestHeldCallsHaveForecastsAndTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		need, start := one(p.paced("", 1, 1)), time.Now()
		var held []*heldCall
		for range 4 {
			h, err := p.Hold(t.Context(), need, time.Time{})
			require.NoError(t, err)
			held = append(held, h)
		}
		require.True(t, held[0].Given())
		require.False(t, held[3].Given())
		require.WithinDuration(t, start.Add(3*time.Second), held[3].Due(), 20*time.Millisecond)

		require.True(t, held[1].Cancel())
		time.Sleep(100 * time.Millisecond)
		require.WithinDuration(t, start.Add(2*time.Second), held[3].Due(), 20*time.Millisecond, "those behind come earlier")

		for i, want := range map[int]time.Duration{0: 0, 2: time.Second, 3: 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if time.Since(start) < want-time.Second/2 {
				_, err := held[i].Wait(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			cancel()
		}
		_, err := held[2].Wait(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, start.Add(time.Second), time.Now(), 20*time.Millisecond)
		_, err = held[3].Wait(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, start.Add(2*time.Second), time.Now(), 20*time.Millisecond)
		require.False(t, held[3].Cancel(), "it was used")
	})
}

// A turn that nobody waited for is over; whoever waits then has another one.
func TestHeldTurnsAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		need := one(p.paced("", 1, 1))
		h, err := p.Hold(t.Context(), need, time.Time{})
		require.NoError(t, err)
		behind, err := p.Hold(t.Context(), need, time.Time{})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.True(t, h.Given())
		require.True(t, h.Until().Before(time.Now()))
		_, err = h.Wait(t.Context())
		require.NoError(t, err)

		time.Sleep(2 * time.Minute) // nothing is kept of the other one
		_, err = behind.Wait(t.Context())
		require.NoError(t, err)
	})
}

// Calls that were booked come back half a second before the time they were told, in whichever
// process: they have their turns in order, and the limit is used.
func TestBookedCallsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, rate = 400, 50
		b := newBubble(t)
		judge := strict(rate, 1)
		var limits []*wire.Limit
		processes := []*process{b.process(time.Millisecond), b.process(time.Millisecond)}
		for _, p := range processes {
			limits = append(limits, p.paced("", rate, 1))
		}
		bookings := make([]engine.Booking, calls)
		for i := range bookings {
			bookings[i].Need = one(limits[0])
			bookings[i].Need.ID = "call " + strconv.Itoa(i)
		}
		start := time.Now()
		bookings[calls-1].Deadline = start.Add(time.Second)
		require.NoError(t, processes[0].Book(t.Context(), bookings))
		require.ErrorIs(t, bookings[calls-1].Err, errLate)

		var group sync.WaitGroup
		var mu sync.Mutex
		came, late := 0, 0
		last := -1
		for i := range bookings[:calls-1] {
			p, need := processes[i%2], bookings[i].Need
			need.Limit, need.Patience = limits[i%2], 1500*time.Millisecond
			due := bookings[i].Due
			group.Go(func() {
				for {
					time.Sleep(time.Until(due) - time.Second/2)
					mu.Lock()
					came++
					mu.Unlock()
					h, err := p.Hold(t.Context(), need, time.Time{})
					if err != nil {
						t.Error(err)
						return
					}
					if h.Booked() {
						due = h.Due()
						continue
					}
					if _, err = h.Wait(t.Context()); err != nil {
						t.Error(err)
					}
					judge.call()
					mu.Lock()
					if i < last {
						late++
					}
					last = i
					mu.Unlock()
					return
				}
			})
		}
		group.Wait()
		used := float64(calls-1) / rate / time.Since(start).Seconds()
		t.Logf("used %.3f, %.2f times here per call, %d out of order, refused %d", used, float64(came)/calls, late, judge.refused)
		require.Zero(t, judge.refused)
		require.GreaterOrEqual(t, used, 0.98)
		require.LessOrEqual(t, float64(came)/calls, 1.3)
		require.LessOrEqual(t, late, calls/10)
	})
}

// A call whose turn is further away than its patience is booked, and does not wait; one that
// leaves keeps its place under its ID.
func TestAnImpatientCallIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		l, start := p.paced("", 1, 1), time.Now()
		hold := func(id string) *heldCall {
			need := one(l)
			need.ID, need.Patience = id, 3*time.Second
			h, err := p.Hold(t.Context(), need, time.Time{})
			require.NoError(t, err)
			return h
		}
		var held []*heldCall
		for i := range 6 {
			held = append(held, hold(strconv.Itoa(i)))
			require.Equal(t, i > 3, held[i].Booked(), i)
			require.WithinDuration(t, start.Add(time.Duration(i)*time.Second), held[i].Due(), 50*time.Millisecond)
		}
		require.True(t, held[2].Book())
		time.Sleep(100 * time.Millisecond)
		again := hold("2")
		require.WithinDuration(t, start.Add(2*time.Second), again.Due(), 50*time.Millisecond, "it has its place still")

		need := one(l)
		need.ID = "4"
		require.NoError(t, p.Drop(t.Context(), &need))
		states, err := p.Inspect(t.Context(), []*wire.Limit{l})
		require.NoError(t, err)
		require.EqualValues(t, 1, states[0].Booked)
		require.EqualValues(t, 3, states[0].Waiting)
		_, err = held[5].Wait(t.Context())
		require.NoError(t, err, "a booked call may wait after all")
		for _, h := range []*heldCall{held[1], again, held[3]} {
			_, err := h.Wait(t.Context())
			require.NoError(t, err)
		}
	})
}

// A turn that was used for nothing, too late or not at all, does not cost a call its place in
// the order: it waits again, or is booked.
func TestACallThatWasNotMadeKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond)
		l := p.paced("", 1, 1)
		hold := func(id string) *heldCall {
			need := one(l)
			need.ID, need.Patience = id, time.Minute
			h, err := p.Hold(t.Context(), need, time.Time{})
			require.NoError(t, err)
			return h
		}
		var order []string
		wait := func(name string, h *heldCall) {
			_, err := h.Wait(t.Context())
			require.NoError(t, err)
			order = append(order, name)
		}
		first := hold("first")
		_, err := first.Wait(t.Context())
		require.NoError(t, err)
		behind := []*heldCall{hold("1"), hold("2"), hold("3"), hold("4")}
		time.Sleep(50 * time.Millisecond) // its permits are gone by now
		wait("first", first)
		wait("1", behind[0])

		require.True(t, behind[0].Book())
		time.Sleep(50 * time.Millisecond)
		wait("1", hold("1"))
		for i, name := range []string{"2", "3", "4"} {
			wait(name, behind[1+i])
		}
		require.Equal(t, []string{"first", "1", "1", "2", "3", "4"}, order)
		require.True(t, behind[1].Book())
		require.False(t, behind[2].Cancel(), "it was used")
		time.Sleep(10 * time.Minute)
		states, err := p.Inspect(t.Context(), []*wire.Limit{l})
		require.NoError(t, err)
		require.EqualValues(t, 0, states[0].Waiting)
	})
}

// What calls did not use is for those behind them at once, though each of these is of a kind
// of its own, and all of them are one process's.
func TestCallsWithIDsHearOfSettledCosts(t *testing.T) {
	for range 10 { // the order of goroutines is not always the same
		synctest.Test(t, func(t *testing.T) {
			const calls, cost, used, rate, burst = 20, 600, 200, 125, 2500
			p := newBubble(t).process(time.Millisecond)
			l, start := p.paced("", rate, burst), time.Now()
			var group sync.WaitGroup
			for i := range calls {
				group.Go(func() {
					need := engine.Need{Part: engine.Part{Limit: l, Cost: cost}, Settles: true, ID: strconv.Itoa(i), Patience: time.Hour}
					h, err := p.Hold(t.Context(), need, time.Time{})
					if err != nil {
						t.Error(err)
						return
					}
					turn, err := h.Wait(t.Context())
					if err == nil {
						settled := make(chan error)
						p.Report(engine.NewCharge(&need, wire.CallID(turn.Process, turn.Number)), []int64{used}, false, false, func(_ []int64, err error) { settled <- err })
						err = <-settled
					}
					if err != nil {
						t.Error(err)
					}
				})
				time.Sleep(2 * time.Millisecond)
			}
			group.Wait()
			least := time.Duration(float64((calls-1)*used+cost-burst) / rate * float64(time.Second))
			require.Less(t, time.Since(start), least+4*time.Second)
		})
	}
}

// knowsItsWay makes calls until the process knows how far away Redis is, and lets a second pass.
func (p *process) knowsItsWay(need engine.Need) {
	p.bubble.Helper()
	for range 3 {
		_, err := p.Wait(p.bubble.Context(), need)
		require.NoError(p.bubble, err)
	}
	time.Sleep(time.Second)
}

// A turn lapses that is given up after a later one of the same ask was used. Calls that come
// then have theirs.
func TestATurnThatLapsesHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(time.Millisecond / 2)
		need := one(p.paced("", 10, 5))
		p.knowsItsWay(need)
		var held *heldCall
		var group sync.WaitGroup
		group.Go(func() { _, _ = p.Wait(t.Context(), need) }) // the others share the next ask
		time.Sleep(100 * time.Microsecond)
		group.Go(func() { held, _ = p.Hold(t.Context(), need, time.Time{}) })
		time.Sleep(100 * time.Microsecond)
		group.Go(func() { _, _ = p.Wait(t.Context(), need) })
		group.Wait()
		require.True(t, held.Given())
		require.True(t, held.Cancel())
		time.Sleep(10 * time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Wait(ctx, need)
		require.NoError(t, err)
	})
}

// Two calls of different kinds are given turns by the same ask, and one of them gives up. Its
// turn does not go back if the other one's would go with it, as that is used later.
func TestATurnGoesBackWithoutThoseOfOthers(t *testing.T) {
	for gone := range 2 {
		synctest.Test(t, func(t *testing.T) {
			const interval = 100 * time.Millisecond
			p := newBubble(t).process(time.Millisecond / 2)
			need := one(p.paced("", 10, 1))
			p.knowsItsWay(need)
			var held [2]*heldCall
			var group sync.WaitGroup
			group.Go(func() { _, _ = p.Wait(t.Context(), need) }) // the others share the next ask
			time.Sleep(100 * time.Microsecond)
			for i := range held {
				group.Go(func() {
					other := need
					other.ID, other.Patience = strconv.Itoa(i), time.Hour
					held[i], _ = p.Hold(t.Context(), other, time.Time{})
				})
				time.Sleep(100 * time.Microsecond)
			}
			group.Wait()
			require.True(t, held[0].Given() && held[1].Given())
			require.True(t, held[gone].Cancel())
			time.Sleep(10 * time.Millisecond)

			var mu sync.Mutex
			var due []time.Time
			used := func(turn engine.Turn, err error) {
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				due = append(due, turn.Due)
			}
			for range 2 {
				group.Go(func() { used(p.Wait(t.Context(), need)) })
			}
			group.Go(func() { used(held[1-gone].Wait(t.Context())) })
			group.Wait()
			for i := 1; i < len(due); i++ {
				require.GreaterOrEqual(t, due[i].Sub(due[i-1]), interval-time.Millisecond, "turns at %v", due)
			}
		})
	}
}

// A call that does not wait comes after those of its process that gave up: what they had is
// there for it, also where the two would go to a far Redis on trips of their own. It follows them
// once: those that give up all the time do not hold it up.
func TestNowFollowsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(5 * time.Millisecond)
		p.leaves.Store(int64(20 * time.Millisecond))
		p.knowsItsWay(one(p.paced("other", 1000, 5)))
		need := one(p.paced("", 0.001, 2))
		var held [2]*heldCall
		for i := range held {
			var err error
			held[i], err = p.Hold(t.Context(), need, time.Time{})
			require.NoError(t, err)
			require.True(t, held[i].Given())
		}
		now := need
		now.Now = true
		_, err := p.Wait(t.Context(), now)
		require.Error(t, err)

		require.True(t, held[1].Cancel())
		synctest.Wait() // it is on its way
		_, err = p.Wait(t.Context(), now)
		require.NoError(t, err)
	})
}

func TestNowFollowsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).process(20 * time.Millisecond)
		p.leaves.Store(int64(100 * time.Millisecond))
		need := one(p.paced("", 100, 20))
		p.knowsItsWay(need)
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for i := range 200 {
			others.Go(func() {
				need := need
				need.Cost = int64(i%20) + 1 // those of a kind leave on one trip at a time
				for ctx.Err() == nil {
					soon, end := context.WithCancel(ctx)
					time.AfterFunc(50*time.Millisecond+rand.N(50*time.Millisecond), end)
					_, _ = p.Wait(soon, need)
					end()
				}
			})
		}
		time.Sleep(time.Second)
		now := need
		now.Now = true
		for range 20 {
			start := time.Now()
			_, _ = p.Wait(t.Context(), now)
			require.Less(t, time.Since(start), 300*time.Millisecond)
		}
		cancel()
		others.Wait()
	})
}

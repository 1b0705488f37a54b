package integration

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// verbs are the uses of limits, each on a fleet that is idle at first.
var verbs = []struct {
	name string
	does func(f *kindsFleet)
}{
	{"Wait", (*kindsFleet).waits},
	{"Allow", (*kindsFleet).allows},
	{"Reserve", (*kindsFleet).reserves},
	{"Pause", (*kindsFleet).pauses},
	{"Resume", (*kindsFleet).resumes},
	{"SetLimit", (*kindsFleet).setsLimits},
	{"State", (*kindsFleet).tellsStates},
	{"Settle", (*kindsFleet).settles},
}

// Limits of every kind, and joints of several, support every use in every package. If a package
// lacks a use, the test uses the same limits directly, beside the package's calls. The API is as
// strict as the limits: it refuses no call, and no call comes later than necessary.
func TestKindsVerbsPackages(t *testing.T) {
	for _, p := range packages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range bubble.Kinds {
				t.Run(k.Name, func(t *testing.T) {
					for _, v := range verbs {
						t.Run(v.name, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								k.Settles = v.name == "Settle"
								time.Sleep(54 * time.Second) // six seconds before the end of a minute: see bubble.Kind
								f := &kindsFleet{Fleet: asynqtest.Open(t), Kind: k, stay: p.stay}
								f.keeps(k.Limits)
								f.one, f.two = p.open(f), p.open(f)
								f.begun = time.Now()
								v.does(f)
							})
						})
					}
				})
			}
		})
	}
}

// kindsFleet is two processes that call an API through a package.
type kindsFleet struct {
	*asynqtest.Fleet
	bubble.Kind
	one, two caller
	begun    time.Time
	stay     bool // waiting calls stay in the process until their turns
}

// caller is one of the processes.
type caller interface {
	reserve.Turns

	call(n int)                         // makes n calls, each in its turn
	settled(cost, used int)             // makes a call, settles it and then returns
	allowed() bool                      // makes a call, if its turn may come now
	reserve() *reserve.Reservation      // reserves a turn for a call that the caller makes
	pause(d time.Duration) (why string) // pauses the limits
	states() []reserve.State
}

// keeps makes the API as strict as these limits.
func (f *kindsFleet) keeps(limits []reserve.Limit) {
	var rules []provider.Rule
	for _, l := range limits {
		rules = append(rules, asynqtest.Strict(l))
	}
	f.Allow("api", rules...)
}

// made is a call that reaches the API, with its cost.
func (f *kindsFleet) made(cost int) {
	f.Call("api", cost)
	f.Ran("", 0)
}

// late is how late a call may be: asynq looks for tasks every 100 ms.
const late = 300 * time.Millisecond

// expect waits until calls were made at these times after the start, and no other calls.
func (f *kindsFleet) expect(after ...time.Duration) {
	f.Helper()
	f.Until(len(after), after[len(after)-1]-time.Since(f.begun)+late)
	time.Sleep(20 * time.Millisecond)
	calls := f.Calls()
	require.Len(f, calls, len(after), "%v", calls)
	for i, c := range calls {
		off := c.At - f.begun.Sub(f.Start) - after[i]
		assert.GreaterOrEqual(f, off, -20*time.Millisecond, "call %d is early", i)
		assert.LessOrEqual(f, off, late, "call %d is late", i)
	}
}

// atOnce returns the moments of the first n calls, followed by these moments.
func atOnce(n int, then ...time.Duration) []time.Duration {
	return append(make([]time.Duration, n), then...)
}

// waits: both processes call as the limits allow.
func (f *kindsFleet) waits() {
	f.one.call(f.AtOnce)
	f.two.call(2)
	f.expect(atOnce(f.AtOnce, f.Then[:]...)...)
}

// allows: a call that is let through uses permits, and a refused call takes no place.
func (f *kindsFleet) allows() {
	if f.AtOnce > 1 {
		f.one.call(f.AtOnce - 1)
		f.expect(atOnce(f.AtOnce - 1)...)
	}
	assert.True(f, f.two.allowed())
	start := time.Now()
	assert.False(f, f.one.allowed())
	assert.False(f, f.two.allowed())
	assert.LessOrEqual(f, time.Since(start), 10*time.Millisecond, "it does not wait")
	f.one.call(1)
	f.expect(atOnce(f.AtOnce, f.Then[0])...)
}

// reserves: a reservation waits in the queue like other calls, unless it is cancelled.
func (f *kindsFleet) reserves() {
	f.one.call(f.AtOnce)
	f.expect(atOnce(f.AtOnce)...)
	first := f.two.reserve()
	assert.NotNil(f, first.HeldBy())
	assert.InDelta(f, f.Then[0], first.Due().Sub(f.begun), float64(late))
	var behind []*reserve.Reservation
	for range f.AtOnce {
		behind = append(behind, f.one.reserve())
	}
	assert.Greater(f, behind[f.AtOnce-1].Delay(), f.Then[1]-late)
	for _, r := range behind {
		require.NoError(f, r.Cancel(f.Context()))
	}
	time.Sleep(late)
	f.one.call(1)
	require.NoError(f, first.Wait(f.Context()))
	f.made(1)
	f.expect(atOnce(f.AtOnce, f.Then[:]...)...)
}

// pauses: no call has its turn during a pause, and all have their turns after it.
func (f *kindsFleet) pauses() {
	const pause = 4 * time.Second
	why := f.two.pause(pause)
	over := time.Now().Add(pause)
	before := len(f.Calls())
	f.one.call(2)
	assert.False(f, f.two.allowed())
	for _, s := range f.one.states() {
		assert.InDelta(f, pause, s.Paused, float64(late))
		assert.GreaterOrEqual(f, s.Wait, pause-late)
		assert.Equal(f, why, s.PauseReason)
	}
	time.Sleep(time.Until(over) - 20*time.Millisecond)
	assert.Len(f, f.Calls(), before)
	f.Until(before+1, late)
	f.Until(before+2, 3*time.Second)
	for _, s := range f.two.states() {
		assert.Zero(f, s.Paused)
		assert.Empty(f, s.PauseReason)
	}
}

// resumes: a pause may end early. Rescheduled tasks come back at their old moments.
func (f *kindsFleet) resumes() {
	const pause, early = 8 * time.Second, 2 * time.Second
	f.one.pause(pause)
	before := len(f.Calls())
	f.one.call(2)
	time.Sleep(early)
	assert.Len(f, f.Calls(), before)
	require.NoError(f, f.two.Resume(f.Context()))
	require.NoError(f, f.one.Resume(f.Context()), "there is no pause")
	if f.stay {
		f.Until(before+2, 3*time.Second)
	}
	resumed := len(f.Calls())
	f.two.call(1)
	f.Until(resumed+1, 4*time.Second)
	f.Until(before+3, pause)
}

// setsLimits: overrides are in force for all processes, until they are removed.
func (f *kindsFleet) setsLimits() {
	inForce := func(of caller, limits []reserve.Limit, set bool) {
		f.Helper()
		for i, s := range of.states() {
			assert.InDelta(f, limits[i].Rate(), s.Rate, 0.01)
			assert.Equal(f, set, s.Set)
		}
	}
	f.one.call(f.AtOnce + 1)
	f.expect(atOnce(f.AtOnce)...)
	f.keeps(f.Faster)
	f.Hasten(f.two, f.Kind)
	inForce(f.one, f.Faster, true)
	calls := f.AtOnce + 5
	if f.stay {
		calls++
	}
	f.one.call(5)
	f.Until(calls, 3*time.Second)
	assert.True(f, f.two.allowed())

	for _, l := range f.one.Limits() {
		require.NoError(f, l.ResetLimit(f.Context()))
	}
	inForce(f.two, f.Limits, false)
	f.keeps(f.Limits)
	left := 0
	for left <= f.AtOnce && f.two.allowed() {
		left++
	}
	assert.LessOrEqual(f, left, f.AtOnce)
	f.two.call(1)
	f.Until(f.AtOnce+1+5+1+left+1, f.Then[1]+late) // a minute ends before that
}

// tellsStates: the state shows waiting calls and available permits.
func (f *kindsFleet) tellsStates() {
	wait := func() (waiting int64, longest time.Duration) {
		for i, s := range f.two.states() {
			assert.InDelta(f, f.Limits[i].Rate(), s.Rate, 0.01)
			assert.Equal(f, f.Limits[i].MaxBurst(), s.Burst)
			waiting += s.Waiting + s.Booked
			longest = max(longest, s.Wait)
		}
		return waiting, longest
	}
	waiting, longest := wait()
	assert.Zero(f, waiting)
	assert.Zero(f, longest)
	f.one.call(f.AtOnce)
	f.expect(atOnce(f.AtOnce)...)
	f.two.call(2)
	time.Sleep(late)
	waiting, longest = wait()
	assert.EqualValues(f, 2, waiting)
	assert.Greater(f, longest, f.Then[0]-2*late) // bookings whose tasks are not there delay no call
	f.expect(atOnce(f.AtOnce, f.Then[:]...)...)
	waiting, _ = wait()
	assert.Zero(f, waiting)
}

// settles: permits that a call did not use are available to others, except at limits with warm-up.
func (f *kindsFleet) settles() {
	f.one.settled(2, 1)
	f.two.call(f.AtOnce)
	if f.Name == "warming up" { // the next call waits for the full cost of the one before
		f.expect(0, f.Then[1])
	} else {
		f.expect(atOnce(f.AtOnce, f.Then[0])...)
	}
}

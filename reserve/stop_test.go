package reserve_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A hard stop ends the waits of all processes within a second, and calls that come later fail. One call of the fleet
// probes every five minutes. Calls that stay keep their places.
func TestHardStop(t *testing.T) {
	for _, kind := range []struct {
		name   string
		limits []reserve.Limit
	}{
		{"paced", []reserve.Limit{reserve.PerMinute(6)}},
		{"quota", []reserve.Limit{reserve.Quota(1, reserve.CalendarMinute)}},
		{"rolling", []reserve.Limit{reserve.Rolling(1, time.Minute)}},
		{"slots", []reserve.Limit{reserve.Concurrent(1)}},
		{"slots and a rate", []reserve.Limit{reserve.Concurrent(2), reserve.PerMinute(6)}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hardStop(t, kind.limits) })
		})
	}
}

func hardStop(t *testing.T, kinds []reserve.Limit) {
	b := newBubble(t)
	var fleet []*reserve.Joint
	for range 3 {
		client := b.client()
		var limits []*reserve.Limiter
		for i, limit := range kinds {
			limits = append(limits, b.on(client, reserve.Config{Name: string(rune('a' + i)), Group: "g", Limit: limit}))
		}
		fleet = append(fleet, joint(t, limits...))
	}
	first, err := fleet[0].Acquire(t.Context())
	require.NoError(t, err)
	var ends sync.WaitGroup
	var mu sync.Mutex
	var failed, stayed []time.Time
	for _, j := range fleet {
		for range 4 {
			ends.Go(func() {
				_, err := j.Acquire(t.Context())
				mu.Lock()
				defer mu.Unlock()
				var gone *reserve.Exhausted
				if assert.ErrorIs(t, err, reserve.ErrExhausted) && assert.ErrorAs(t, err, &gone) {
					assert.Equal(t, reserve.Exhausted{Scope: "g/a", Reason: "insufficient_quota"}, *gone)
					assert.ErrorContains(t, err, "the end is not known; this ends the stop: fleetpace resume g/a")
				}
				failed = append(failed, time.Now())
			})
		}
	}
	ends.Go(func() {
		r, err := fleet[1].Staying().Acquire(t.Context())
		if assert.NoError(t, err) {
			mu.Lock()
			stayed = append(stayed, time.Now())
			mu.Unlock()
			assert.False(t, r.Probes())
			r.Release()
		}
	})
	time.Sleep(time.Second)
	stopped := time.Now()
	require.NoError(t, fleet[2].Limits()[0].Stop(t.Context(), time.Time{}, "insufficient_quota"))
	time.Sleep(time.Second)
	mu.Lock()
	assert.Len(t, failed, 12, "of the fleet")
	mu.Unlock()
	first.Release()
	s := state(t, fleet[0].Limits()[0])
	assert.True(t, s.Stopped)
	assert.Equal(t, "hard stop: insufficient_quota", s.PauseReason)
	assert.LessOrEqual(t, s.Waiting, int64(1))

	// For 11 minutes, each process makes a call every 30 s.
	var probes []time.Duration
	for time.Since(stopped) < 11*time.Minute {
		for _, j := range fleet {
			r, err := j.Acquire(t.Context())
			if err != nil {
				require.ErrorIs(t, err, reserve.ErrExhausted)
				continue
			}
			require.True(t, r.Probes())
			require.Nil(t, r.Lost())
			r.Release()
			probes = append(probes, time.Since(stopped).Round(10*time.Second))
		}
		time.Sleep(30 * time.Second)
	}
	assert.Len(t, probes, 2, "at %v", probes)
	assert.Empty(t, stayed)

	require.NoError(t, fleet[0].Limits()[0].Resume(t.Context()))
	time.Sleep(2 * time.Minute)
	mu.Lock()
	assert.Len(t, stayed, 1)
	mu.Unlock()
	ends.Wait()
}

// A call that begins during a hard stop fails at once. It does not wait in the place that a call before it is leaving.
func TestCallsOfAStopFailAtOnce(t *testing.T) {
	for kind, limits := range map[string][]reserve.Limit{
		"paced":            {reserve.PerSecond(50).Burst(50)},
		"quota":            {reserve.Quota(10, reserve.CalendarMinute)},
		"rolling":          {reserve.Rolling(10, time.Minute)},
		"slots":            {reserve.Concurrent(2)},
		"slots and a rate": {reserve.Concurrent(2), reserve.PerMinute(6)},
		"rates":            {reserve.PerMinute(300).Burst(50), reserve.PerSecond(600)},
	} {
		for verb, call := range map[string]func(context.Context, *reserve.Joint) error{
			"acquire": func(ctx context.Context, of *reserve.Joint) error {
				_, err := of.Acquire(ctx)
				return err
			},
			"acquire with a deadline": func(ctx context.Context, of *reserve.Joint) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				_, err := of.Acquire(ctx)
				return err
			},
			"reserve": func(ctx context.Context, of *reserve.Joint) error {
				_, err := of.Reserve(ctx)
				return err
			},
		} {
			for _, gap := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 50 * time.Millisecond} {
				for _, callers := range []int{1, 3} {
					t.Run(fmt.Sprint(kind, ", ", verb, ", ", callers, " callers each ", gap), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { callsOfAStop(t, limits, call, gap, callers) })
					})
				}
			}
		}
	}
}

func callsOfAStop(t *testing.T, limits []reserve.Limit, call func(context.Context, *reserve.Joint) error, gap time.Duration, callers int) {
	calls := joint(t, newBubble(t).group(limits...)...)
	for _, l := range calls.Limits() {
		require.NoError(t, l.Stop(t.Context(), time.Time{}, "credits"))
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 8 {
				began := time.Now()
				assert.ErrorIs(t, call(t.Context(), calls), reserve.ErrExhausted)
				assert.Less(t, time.Since(began), 100*time.Millisecond)
				time.Sleep(gap)
			}
		})
	}
	all.Wait()
}

// Errors, log lines and states of a stop name what the command fleetpace resume takes to end the whole stop.
func TestHardStopOfSeveralLimits(t *testing.T) {
	for want, of := range map[string]func(a, b *reserve.Limiter) []*reserve.Limiter{
		"g/a": func(a, _ *reserve.Limiter) []*reserve.Limiter { return []*reserve.Limiter{a} },
		"g":   func(a, b *reserve.Limiter) []*reserve.Limiter { return []*reserve.Limiter{a, b} },
		"g acme": func(a, b *reserve.Limiter) []*reserve.Limiter {
			return []*reserve.Limiter{a.For("acme"), b.For("acme")}
		},
		"g ":       func(a, b *reserve.Limiter) []*reserve.Limiter { return []*reserve.Limiter{a, b.For("acme")} }, // other keys, too
		"g/a/acme": func(a, _ *reserve.Limiter) []*reserve.Limiter { return []*reserve.Limiter{a.For("acme")} },
		"g  ":      func(a, b *reserve.Limiter) []*reserve.Limiter { return []*reserve.Limiter{a.For("-y"), b.For("-y")} }, // no flag
	} {
		for _, lasts := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("%q for %v", want, lasts), func(t *testing.T) {
				want := strings.TrimSpace(want)
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					client, log := b.client(), &book{}
					var fleet []*reserve.Joint
					for range 2 {
						var two []*reserve.Limiter
						for _, name := range []string{"a", "b"} {
							two = append(two, b.on(client, reserve.Config{Name: name, Group: "g", Limit: reserve.PerSecond(10), Logger: slog.New(slog.NewTextHandler(log, nil))}))
						}
						fleet = append(fleet, joint(t, of(two[0], two[1])...))
					}
					for _, j := range fleet {
						require.NoError(t, j.Wait(t.Context()))
					}
					until := time.Time{}
					if lasts > 0 {
						until = time.Now().Add(lasts).Truncate(time.Second)
					}
					require.NoError(t, fleet[0].Stop(t.Context(), until, "credits"))
					time.Sleep(time.Second)
					for _, j := range fleet {
						err := j.Wait(t.Context())
						var gone *reserve.Exhausted
						require.ErrorAs(t, err, &gone)
						require.True(t, gone.Until.Equal(until))
						if lasts == 0 {
							require.True(t, strings.HasSuffix(err.Error(), ": fleetpace resume "+want), err)
						}
						states, err := j.States(t.Context())
						require.NoError(t, err)
						for _, st := range states {
							require.True(t, st.StoppedUntil.Equal(until))
							require.Equal(t, "hard stop: credits", st.PauseReason)
							if len(states) > 1 {
								require.Equal(t, strings.Fields(want), st.StoppedTogether)
							} else {
								require.Nil(t, st.StoppedTogether)
							}
						}
					}
					stops, undone := regexp.MustCompile(` stopped"| stopped by another`), regexp.MustCompile(`undo="fleetpace resume `+want+`" until`)
					require.Len(t, undone.FindAllString(log.String(), -1), len(stops.FindAllString(log.String(), -1)), log)
					require.NotEmpty(t, undone.FindString(log.String()))
					require.NoError(t, fleet[1].Resume(t.Context()))
					require.NoError(t, fleet[0].Wait(t.Context()))
				})
			})
		}
	}
}

// A stop with an end is probed by nobody, and is over then. A plain pause does not end it.
func TestHardStopUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		require.NoError(t, l.Stop(t.Context(), time.Now().Add(-time.Second), "past"))
		require.NoError(t, other.Wait(t.Context()))
		require.NoError(t, l.Stop(t.Context(), until, "DayQuota"))
		require.NoError(t, l.Pause(t.Context(), 2*time.Hour, "longer"))
		var gone *reserve.Exhausted
		for range 50 {
			_, err := other.Acquire(t.Context(), 1)
			require.ErrorAs(t, err, &gone)
			assert.True(t, gone.Until.Equal(until))
			assert.EqualError(t, err, `reserve: acquire "api": the limit is stopped: "api": DayQuota; until `+until.UTC().Format(time.RFC3339)+"; this ends the stop earlier: fleetpace resume api")
			time.Sleep(time.Minute)
		}
		require.NoError(t, other.For("another key").Wait(t.Context()))
		allowed, err := other.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, allowed)
		require.NoError(t, l.Resume(t.Context()))
		start := time.Now()
		require.NoError(t, other.Wait(t.Context()))
		assert.Less(t, time.Since(start), time.Second)
		require.NoError(t, l.Stop(t.Context(), time.Now().Add(time.Minute), "short"))
		require.ErrorIs(t, other.Wait(t.Context()), reserve.ErrExhausted)
		time.Sleep(time.Minute)
		require.NoError(t, other.Wait(t.Context()))
	})
}

// Where all calls stay, one of them probes.
func TestHardStopIsProbedByCallsThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		probes := make(chan *reserve.Reservation, 100)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Stop(t.Context(), time.Time{}, "credits"))
		processes := []*reserve.Limiter{b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))}
		for i := range 20 {
			of := processes[i%2].Staying()
			calls.Go(func() {
				if r, err := of.Acquire(ctx, 1); err == nil {
					probes <- r
				}
			})
		}
		time.Sleep(11 * time.Minute)
		assert.Len(t, probes, 2)
		assert.True(t, (<-probes).Probes())
		assert.Equal(t, int64(18), state(t, l).Waiting)
		require.NoError(t, l.Resume(t.Context()))
		time.Sleep(10 * time.Second)
		assert.Len(t, probes, 19)
		cancel()
		calls.Wait()
	})
}

// Calls with deadlines far below the end of a stop fail because of the stop, and some of them probe it, whether they
// stay or not.
func TestHardStopOfCallsWithDeadlines(t *testing.T) {
	for name, limit := range map[string]reserve.Limit{
		"paced": reserve.PerSecond(10), "quota": reserve.Quota(1000, reserve.CalendarMinute), "rolling": reserve.Rolling(1000, time.Minute),
		"warming": reserve.PerSecond(10).WarmUp(time.Minute), "slots": reserve.Concurrent(2),
	} {
		for _, stays := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", stays: ", stays), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					fleet := []*reserve.Limiter{b.limiter(limit), b.limiter(limit)}
					require.NoError(t, fleet[0].Stop(t.Context(), time.Time{}, "credits"))
					start := time.Now()
					var probes []time.Duration
					for i := 0; time.Since(start) < 17*time.Minute; i++ {
						of := fleet[i%2]
						if stays {
							of = of.Staying()
						}
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						r, err := of.Acquire(ctx, 1)
						cancel()
						switch {
						case err == nil:
							require.True(t, r.Probes())
							probes = append(probes, time.Since(start).Round(time.Minute))
						case !stays:
							require.ErrorIs(t, err, reserve.ErrExhausted)
						}
						time.Sleep(time.Until(start.Add(time.Duration(i+1) * 30 * time.Second)))
					}
					assert.Len(t, probes, 3, "at %v", probes)
					require.NoError(t, fleet[1].Resume(t.Context()))
					for _, of := range fleet {
						r, err := of.Acquire(t.Context(), 1)
						require.NoError(t, err)
						assert.False(t, r.Probes())
					}
				})
			})
		}
	}
}

// A stop is lost with the data of Redis: nothing is left of it that no call may probe.
func TestHardStopIsLostWithTheData(t *testing.T) {
	for name, limit := range map[string]reserve.Limit{
		"paced": reserve.PerSecond(10), "quota": reserve.Quota(1000, reserve.CalendarMinute), "rolling": reserve.Rolling(1000, time.Minute),
		"warming": reserve.PerSecond(10).WarmUp(time.Minute), "slots": reserve.Concurrent(2),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				fleet := []*reserve.Limiter{b.limiter(limit), b.limiter(limit)}
				for _, l := range fleet {
					r, err := l.Acquire(t.Context(), 1)
					require.NoError(t, err)
					r.Release()
				}
				require.NoError(t, fleet[0].Stop(t.Context(), time.Time{}, "credits"))
				for _, l := range fleet {
					_, err := l.Acquire(t.Context(), 1)
					require.ErrorIs(t, err, reserve.ErrExhausted)
				}
				b.mini.FlushAll()
				for _, l := range fleet {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					r, err := l.Acquire(ctx, 1)
					cancel()
					require.NoError(t, err)
					assert.False(t, r.Probes())
					r.Release()
				}
				assert.Zero(t, state(t, fleet[0]).Paused)
			})
		})
	}
}

// A plain pause whose reason reads like a stop is a pause: calls wait, and none of them probes.
func TestPauseWithTheReasonOfAStop(t *testing.T) {
	for _, reason := range []string{"hard stop 2", "hard stop 2 - credits", "hard stop -2 - credits", "hard stop 2 2030-01-01T00:00:00Z credits"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			l, other := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
			require.NoError(t, l.Pause(t.Context(), 10*time.Minute, reason))
			s := state(t, other)
			assert.False(t, s.Stopped, reason)
			assert.Equal(t, "pause: "+reason, s.PauseReason)
			start := time.Now()
			for range 2 {
				r, err := other.Acquire(t.Context(), 1)
				require.NoError(t, err)
				assert.False(t, r.Probes(), reason)
			}
			assert.GreaterOrEqual(t, time.Since(start), 599*time.Second, reason)
		})
	}
}

// A call does not probe the stop of one of its limits while another one is paused.
func TestHardStopIsNotProbedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		calls := b.on(client, reserve.Config{Name: "calls", Group: "g", Limit: reserve.PerSecond(10)})
		customer := b.on(client, reserve.Config{Name: "customer", Group: "g", Limit: reserve.PerSecond(10)})
		both := joint(t, calls, customer)
		require.NoError(t, calls.Stop(t.Context(), time.Time{}, "credits"))
		require.NoError(t, customer.Pause(t.Context(), 12*time.Minute, "an operator"))
		start := time.Now()
		var probes []time.Duration
		for time.Since(start) < 20*time.Minute {
			r, err := both.Acquire(t.Context())
			if err == nil {
				require.True(t, r.Probes())
				probes = append(probes, time.Since(start).Round(time.Minute))
			}
			time.Sleep(time.Minute)
		}
		require.Len(t, probes, 2)
		assert.GreaterOrEqual(t, probes[0], 12*time.Minute)
	})
}

// Booked calls of a stop without a known end come back within ten minutes, not all at once, and get their turns once
// the stop has ended.
func TestHardStopOfBookings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
		calls, there := joint(t, l), joint(t, other)
		require.NoError(t, other.Stop(t.Context(), time.Time{}, "credits"))
		backs := map[time.Duration]bool{}
		for i := range 20 {
			id := fmt.Sprint(i)
			r, err := calls.Ask(t.Context(), id, time.Second)
			require.NoError(t, err)
			require.True(t, r.Booked())
			back := r.Delay()
			assert.GreaterOrEqual(t, back, 299*time.Second)
			assert.LessOrEqual(t, back, 10*time.Minute)
			backs[back.Round(10*time.Second)] = true
			assert.WithinDuration(t, r.Due(), there.Book(t.Context(), []reserve.Call{{ID: id}})[0].Due, 5*time.Minute)
		}
		assert.Greater(t, len(backs), 5)
		time.Sleep(10 * time.Minute)
		require.NoError(t, other.Resume(t.Context()))
		for i := range 20 {
			r, err := calls.Ask(t.Context(), fmt.Sprint(i), 10*time.Second)
			require.NoError(t, err)
			require.NoError(t, r.Wait(t.Context()))
		}
	})
}

// If all calls are booked, one of them in five minutes probes the stop. It has its turn at once, and its success ends
// the stop.
func TestBookedCallsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := []*reserve.Joint{joint(t, b.on(b.client(), reserve.Config{Limit: reserve.PerSecond(10)})), joint(t, b.on(b.client(), reserve.Config{Limit: reserve.PerSecond(10)}))}
		require.NoError(t, fleet[0].Stop(t.Context(), time.Time{}, "credits"))
		var probes []time.Duration
		start := time.Now()
		for minute := range 17 {
			for i, j := range fleet {
				r, err := j.Ask(t.Context(), fmt.Sprint("task ", minute%2, i), time.Second)
				require.NoError(t, err)
				if r.Booked() || len(probes) == 3 {
					continue
				}
				require.True(t, r.Probes())
				require.NoError(t, r.Wait(t.Context()))
				probes = append(probes, time.Since(start).Round(time.Second))
				if len(probes) == 3 {
					require.NoError(t, r.Served(t.Context()))
				}
			}
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute}, probes)
		state, err := fleet[1].Limits()[0].State(t.Context())
		require.NoError(t, err)
		assert.False(t, state.Stopped)
	})
}

package server_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/server"
)

// caller asks as the page says, over a way that takes its time and with stalls.
type caller struct {
	t         *testing.T
	h         http.Handler
	there     func() time.Duration // from before the request until it is at the server
	back      func() time.Duration // from its answer until the caller reads it
	unmindful bool                 // it calls when the answer comes, however late that is
	id        string               // its own; empty: that of the answer
	fastest   []time.Duration      // ways there and back
	late      int                  // turns that were handed back
}

func ofMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// way is how long an answer takes to the caller at the least, as far as that is known.
func (c *caller) way() time.Duration {
	if len(c.fastest) < 5 {
		return 0
	}
	fastest := c.fastest[0]
	for _, w := range c.fastest {
		fastest = min(fastest, w)
	}
	return fastest / 2
}

// turn returns when the call may be made.
func (c *caller) turn(limits string) answer {
	id, named, more := c.id, "", ""
	var slow time.Duration // the fastest way of the answers that came too late
	for late := 0; ; {
		way := c.way()
		if late > 1 {
			way = max(way, slow)
		}
		if !c.unmindful {
			more = fmt.Sprintf(`,"way":"%s"`, way)
		}
		if id != "" {
			more += fmt.Sprintf(`,"id":%q`, id)
		}
		if named != "" {
			more += fmt.Sprintf(`,"late":true,"turn":%q`, named)
		}
		sent := time.Now()
		time.Sleep(c.there())
		w := post(c.t, c.h, "/v1/wait", `{"limits":[`+limits+`]`+more+`}`)
		time.Sleep(c.back())
		a := body(c.t, w)
		if w.Code == http.StatusAccepted {
			id = a.ID
			time.Sleep(ofMillis(a.Retry))
			continue
		}
		assert.Equal(c.t, http.StatusOK, w.Code, w.Body)
		now := time.Now()
		onTheWay := now.Sub(sent) - ofMillis(a.Held)
		c.fastest = append(c.fastest, onTheWay)
		if c.unmindful {
			return a
		}
		time.Sleep(time.Until(now.Add(ofMillis(a.Due) - c.way())))
		if latest := sent.Add(ofMillis(a.Held+a.Usable) + c.way()); !time.Now().After(latest) {
			return a
		}
		late++
		c.late++
		if slow == 0 || onTheWay < slow {
			slow = onTheWay
		}
		id, named = a.ID, a.Turn
	}
}

// atOnce counts calls that hold slots.
type atOnce struct{ now, most atomic.Int64 }

func (o *atOnce) run(d time.Duration) {
	n := o.now.Add(1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	time.Sleep(d)
	o.now.Add(-1)
}

// Callers stand still for 0.6 to 0.9 s, again and again: before they send a request, while it waits, and
// after the answer has come. A strict provider refuses none of 500 calls, of each kind of limit and
// of several at once, with ids of the caller's and with those of answers. It refuses those that call as
// soon as they read the answer.
func TestLate(t *testing.T) {
	stall := func(random *rand.Rand, part int) time.Duration {
		if random.IntN(part) > 0 {
			return 500 * time.Microsecond
		}
		return 600*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond)))
	}
	for name, c := range map[string]struct {
		limits string
		rules  []provider.Rule
		slots  int64
	}{
		"paced":   {`{"name":"quick"}`, []provider.Rule{provider.TokenBucket(100, 3)}, 0}, // 20 ms are borne: 2 permits
		"quota":   {`{"name":"window"}`, []provider.Rule{provider.FixedWindow(100, time.Minute)}, 0},
		"slots":   {`{"name":"ten"}`, nil, 10},
		"several": {`{"name":"rate"},{"name":"other"},{"name":"ten"}`, []provider.Rule{provider.TokenBucket(100, 3), provider.TokenBucket(80, 6)}, 10},
	} {
		for _, mindful := range []bool{true, false} {
			for _, own := range []bool{true, false} {
				if !mindful && (own || name != "paced") || own && name != "paced" {
					continue
				}
				t.Run(fmt.Sprintf("%s/mindful=%v,own ids=%v", name, mindful, own), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newSite(t, bubble.New(t), server.Config{})
						api := provider.New(c.rules...)
						var refused, late atomic.Int64
						var held atOnce
						began := time.Now()
						var all sync.WaitGroup
						calls := 25
						if c.slots > 0 { // they take longer to simulate
							calls = 8
						}
						for i := range 20 {
							all.Go(func() {
								random := rand.New(rand.NewPCG(uint64(i), 34))
								caller := &caller{t: t, h: s, unmindful: !mindful}
								caller.there = func() time.Duration { return stall(random, 12) }
								caller.back = func() time.Duration { return stall(random, 6) }
								for k := range calls {
									if own {
										caller.id = fmt.Sprintf("call-%d-%d", i, k)
									}
									a := caller.turn(c.limits)
									if ok, _ := api.Judge(1); !ok {
										refused.Add(1)
									}
									if a.Lease > 0 {
										held.run(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
										assert.Equal(t, http.StatusNoContent, post(t, s, "/v1/release", `{"turn":"`+a.Turn+`"}`).Code)
									}
								}
								late.Add(int64(caller.late))
							})
						}
						all.Wait()
						t.Logf("%d of %d refused, %d turns handed back, %v", refused.Load(), 20*calls, late.Load(), time.Since(began).Round(time.Millisecond))
						require.LessOrEqual(t, held.most.Load(), c.slots)
						if mindful {
							require.Zero(t, refused.Load())
						} else {
							require.Positive(t, refused.Load(), "the provider judges nothing")
						}
					})
				})
			}
		}
	}
}

// A way that takes longer than turns last is taken for granted, from the second turn on that comes
// too late: the call has its turn.
func TestLateOnALongWay(t *testing.T) {
	for _, way := range []time.Duration{15 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(way.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, bubble.New(t), server.Config{})
				api := provider.New(provider.TokenBucket(10, 1))
				steady := func() time.Duration { return way }
				c := &caller{t: t, h: s, there: steady, back: steady}
				began := time.Now()
				for range 50 {
					c.turn(`{"name":"api"}`)
					ok, _ := api.Judge(1)
					require.True(t, ok)
				}
				t.Logf("%d turns handed back, %v", c.late, time.Since(began))
				require.LessOrEqual(t, c.late, 60)
			})
		})
	}
}

// A turn that is handed back is the call's no more and goes to the next one; the call keeps its place
// before those that came later. The permits of a slow limit are not lost. Handing back twice is handing
// back once.
func TestHandBack(t *testing.T) {
	for _, own := range []string{"", `"id":"mine"`} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, bubble.New(t), server.Config{})
			var more []string
			if own != "" {
				more = []string{own}
			}
			a := body(t, post(t, s, "/v1/wait", wants("slow", more...)))
			require.NotEmpty(t, a.ID)
			require.Positive(t, a.Usable)
			time.Sleep(time.Second)
			began := time.Now()
			var order []string
			var mu sync.Mutex
			var all sync.WaitGroup
			wait := func(name, body string) {
				all.Go(func() {
					w := post(t, s, "/v1/wait", body)
					mu.Lock()
					defer mu.Unlock()
					order = append(order, fmt.Sprint(name, " ", w.Code, " ", time.Since(began).Round(time.Second)))
				})
				time.Sleep(time.Millisecond)
			}
			back := wants("slow", `"late":true`, `"id":"`+a.ID+`"`, `"turn":"`+a.Turn+`"`)
			wait("back", back)
			wait("later", wants("slow", `"max_wait":"5s"`))
			all.Wait()
			require.Equal(t, []string{"back 200 0s", "later 429 0s"}, order, "its minute is not lost")

			// It comes once more, as a copy of the network: the turn that it names is over.
			copied := post(t, s, "/v1/wait", strings.Replace(back, "{", `{"max_wait":"1s",`, 1))
			require.Equal(t, http.StatusTooManyRequests, copied.Code)
		})
	}
}

// Of calls that wait, the one that hands its turn back is first.
func TestHandBackBeforeOthers(t *testing.T) {
	for _, named := range []bool{true, false} { // without the turn: its answer was lost
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, bubble.New(t), server.Config{})
			post(t, s, "/v1/wait", wants("api"))
			a := body(t, post(t, s, "/v1/wait", wants("api", `"id":"a"`)))
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			wait := func(name, body string) {
				all.Go(func() {
					assert.Equal(t, http.StatusOK, post(t, s, "/v1/wait", body).Code)
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
				})
				time.Sleep(time.Millisecond)
			}
			for i := range 12 {
				name := fmt.Sprint("other-", i)
				wait(name, wants("api", `"id":"`+name+`"`))
			}
			more := []string{`"late":true`, `"id":"a"`}
			if named {
				more = append(more, `"turn":"`+a.Turn+`"`)
			}
			wait("a", wants("api", more...))
			all.Wait()
			// Some of the others have their turns already, at most half a second ahead.
			require.LessOrEqual(t, slices.Index(order, "a"), 6, "named %v: %v", named, order)
		})
	}
}

// late of an id of which nothing is known is an ask as any other, also where what was known is
// forgotten, or is of something else; and without an id it is refused.
func TestLateOfAnUnknownID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{MaxKept: 1})
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("api", `"late":true`, `"id":"none"`)).Code)
		w := post(t, s, "/v1/wait", wants("api", `"late":true`))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Equal(t, "id", body(t, w).Field)

		late := func(a answer, limit string) *time.Duration {
			began := time.Now()
			w := post(t, s, "/v1/wait", wants(limit, `"late":true`, `"id":"`+a.ID+`"`, `"turn":"`+a.Turn+`"`, `"max_wait":"1s"`))
			if w.Code != http.StatusOK {
				return nil
			}
			took := time.Since(began)
			return &took
		}
		first := body(t, post(t, s, "/v1/wait", wants("slow")))
		post(t, s, "/v1/wait", wants("burst")) // one more than are kept
		require.Nil(t, late(first, "slow"), "its turn is forgotten, and the next one is a minute away")
		time.Sleep(time.Minute)
		first = body(t, post(t, s, "/v1/wait", wants("slow")))
		time.Sleep(11 * time.Second)
		require.Nil(t, late(first, "slow"), "it is too old")
		time.Sleep(time.Minute)
		first = body(t, post(t, s, "/v1/wait", wants("slow")))
		require.NotNil(t, late(first, "burst"), "another limit has a turn of its own")
		require.Nil(t, late(first, "slow"))
		time.Sleep(time.Minute)
		first = body(t, post(t, s, "/v1/wait", wants("slow")))
		require.NotNil(t, late(first, "slow"))
	})
}

// A turn that holds slots is over when it is handed back.
func TestHandBackSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		post(t, s, "/v1/wait", wants("slots"))
		a := body(t, post(t, s, "/v1/wait", wants("slots")))
		began := time.Now()
		again := body(t, post(t, s, "/v1/wait", wants("slots", `"late":true`, `"id":"`+a.ID+`"`, `"turn":"`+a.Turn+`"`)))
		require.Less(t, time.Since(began), time.Second)
		require.Equal(t, http.StatusNotFound, post(t, s, "/v1/release", `{"turn":"`+a.Turn+`"}`).Code)
		require.Equal(t, http.StatusTooManyRequests, post(t, s, "/v1/wait", wants("slots", `"max_wait":"1s"`)).Code)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/release", `{"turn":"`+again.Turn+`"}`).Code)
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("slots", `"max_wait":"1s"`)).Code)
	})
}

// While Redis is away a late turn is handed back, too: the limit's policy decides on the next one.
func TestHandBackWhileRedisIsAway(t *testing.T) {
	for limit, status := range map[string]int{"loose": http.StatusOK, "api": http.StatusOK, "strict": http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			b := bubble.New(t)
			s := newSite(t, b, server.Config{})
			a := body(t, post(t, s, "/v1/wait", wants(limit, `"id":"a"`)))
			b.Redis.SetError("LOADING Redis is loading the dataset in memory")
			for range 3 {
				w := post(t, s, "/v1/wait", wants(limit, `"id":"a"`, `"late":true`, `"turn":"`+a.Turn+`"`))
				require.Equal(t, status, w.Code, "%s: %s", limit, w.Body)
				a = body(t, w)
			}
			b.Redis.SetError("")
		})
	}
}

// Places that only the server keeps are bounded; those with ids of their own are in Redis.
func TestMaxKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{MaxKept: 3})
		for range 2 {
			post(t, s, "/v1/wait", wants("slots"))
		}
		codes := map[int]int{}
		var detail string
		for i := range 6 {
			w := post(t, s, "/v1/wait", wants("slots", `"poll":"1s"`))
			codes[w.Code]++
			if w.Code == http.StatusServiceUnavailable {
				detail = body(t, w).Detail
				require.Equal(t, "1", w.Header().Get("Retry-After"))
			}
			w = post(t, s, "/v1/wait", wants("slots", `"poll":"1s"`, fmt.Sprintf(`"id":"own-%d"`, i)))
			codes[w.Code]++
		}
		t.Log(codes)
		require.Contains(t, detail, "Give the call an id")
	})
}

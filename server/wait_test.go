package server_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// Callers without ids have their turns at the rate, in their order.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		began := time.Now()
		for i := range 5 {
			w := post(t, s, "/v1/wait", wants("api"))
			require.Equal(t, http.StatusOK, w.Code)
			require.InDelta(t, float64(i)*100, ms(time.Since(began)), 5)
		}
	})
}

// A call whose turn comes after its poll is told when to come back, under an id; then it has its
// turn when that comes. Those that come after it are behind it.
func TestLater(t *testing.T) {
	for _, id := range []string{"", `"id":"mine"`} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, bubble.New(t), server.Config{})
			require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("slow")).Code)
			more := []string{`"poll":"5s"`}
			if id != "" {
				more = append(more, id)
			}
			began := time.Now()
			w := post(t, s, "/v1/wait", wants("slow", more...))
			require.Equal(t, http.StatusAccepted, w.Code)
			a := body(t, w)
			require.InDelta(t, ms(time.Minute), a.Forecast, 100)
			require.InDelta(t, ms(15*time.Second), a.Retry, 100)
			require.Equal(t, "15", w.Header().Get("Retry-After"))
			require.Equal(t, "slow", a.HeldBy)
			behind := body(t, post(t, s, "/v1/wait", wants("slow", `"poll":"5s"`)))
			require.InDelta(t, ms(2*time.Minute), behind.Forecast, 100)

			for times := 1; w.Code == http.StatusAccepted; times++ {
				time.Sleep(time.Duration(body(t, w).Retry * float64(time.Millisecond)))
				w = post(t, s, "/v1/wait", wants("slow", `"poll":"5s"`, `"max_wait":"70s"`, `"id":"`+a.ID+`"`))
				require.Less(t, times, 10)
			}
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.InDelta(t, 60, time.Since(began).Seconds(), 0.1)
			require.InDelta(t, ms(time.Minute), body(t, w).Waited, 100)
		})
	}
}

// A poll that ends while its call waits in the server keeps the place.
func TestAPollThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		post(t, s, "/v1/wait", wants("api"))
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"for":"1s"`)).Code)
		began := time.Now()
		var first answer
		var others sync.WaitGroup
		others.Go(func() { first = body(t, post(t, s, "/v1/wait", wants("api", `"poll":"2s"`))) })
		time.Sleep(time.Millisecond)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"for":"5s"`, `"reason":"theirs is down"`)).Code)
		others.Wait()
		require.NotEmpty(t, first.ID)
		require.InDelta(t, 2, time.Since(began).Seconds(), 0.01)

		var turns [2]float64
		for i, more := range []string{`"id":"` + first.ID + `"`, `"id":"new"`} {
			others.Go(func() {
				require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("api", more)).Code)
				turns[i] = time.Since(began).Seconds()
			})
			time.Sleep(time.Millisecond)
		}
		others.Wait()
		require.Less(t, turns[0], turns[1])
		require.InDelta(t, 5.1, turns[1], 0.3)
	})
}

// A call that does not wait so long is told when its turn would have come, and is in nobody's
// way.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		for _, more := range [][]string{{`"max_wait":"20s"`}, {`"max_wait":"20s"`, `"id":"x"`}, {`"max_wait":"0s"`}} {
			post(t, s, "/v1/wait", wants("slow", `"max_wait":"1h"`, `"poll":"1h"`))
			w := post(t, s, "/v1/wait", wants("slow", more...))
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.Equal(t, "60", w.Header().Get("Retry-After"))
			time.Sleep(time.Minute)
		}
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("slow", `"max_wait":"0s"`)).Code)
	})
}

// A wait for slots, whose end nobody knows, is over when the caller has no more time.
func TestMaxWaitForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{Lease: time.Hour})
		for range 2 {
			post(t, s, "/v1/wait", wants("slots"))
		}
		began := time.Now()
		require.Equal(t, http.StatusTooManyRequests, post(t, s, "/v1/wait", wants("slots", `"max_wait":"3s"`)).Code)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.1)
	})
}

// Half of those that wait hang up: the others have the turns, and none is lost.
func TestHangUp(t *testing.T) {
	for name, more := range map[string]string{"without ids": "", "with ids": `,"id":"%d"`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, bubble.New(t), server.Config{})
				began := time.Now()
				var callers sync.WaitGroup
				for i := range 40 {
					callers.Go(func() {
						id := ""
						if more != "" {
							id = `,"id":"` + string(rune('a'+i)) + `"`
						}
						ctx, hangUp := context.WithCancel(t.Context())
						defer hangUp()
						if i%2 == 1 {
							time.AfterFunc(500*time.Millisecond, hangUp)
						}
						w := do(t, s, request(t, http.MethodPost, "/v1/wait", `{"limits":[{"name":"api"}]`+id+`}`).WithContext(ctx))
						if ctx.Err() == nil {
							assert.Equal(t, http.StatusOK, w.Code, w.Body)
						}
					})
					time.Sleep(time.Microsecond)
				}
				callers.Wait()
				// Of the first six, three hang up after their turns: 20 and 3 turns.
				require.InDelta(t, 2.2, time.Since(began).Seconds(), 0.15)
			})
		})
	}
}

// A caller without an id that hangs up at any moment, also while its place moves to Redis, leaves no place there.
func TestHangUpBeforeTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		b.Way = 2 * time.Millisecond
		s := newSite(t, b, server.Config{})
		post(t, s, "/v1/wait", wants("slow"))
		for after := time.Millisecond / 2; after < 20*time.Millisecond; after += time.Millisecond {
			ctx, hangUp := context.WithCancel(t.Context())
			time.AfterFunc(after, hangUp)
			w := do(t, s, request(t, http.MethodPost, "/v1/wait", wants("slow", `"poll":"5s"`)).WithContext(ctx))
			if ctx.Err() == nil { // the response came before that
				return
			}
			time.Sleep(time.Second)
			now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/slow", "")))
			require.Equal(t, []int{0, 0}, []int{now.Waiting, now.Booked}, "after %v: %d", after, w.Code)
		}
		t.Fatal("no response says the id")
	})
}

// A thousand callers wait at two servers, and a third of them hang up, at any moment: the others
// have their turns, and as good as no permit is lost.
func TestAThirdHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		servers := []*site{newSite(t, b, server.Config{}), newSite(t, b, server.Config{})}
		const callers = 1000
		var waits sync.WaitGroup
		var turns atomic.Int64
		began := time.Now()
		for i := range callers {
			waits.Go(func() {
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				if i%3 == 0 {
					time.AfterFunc(rand.N(8*time.Second), hangUp)
				}
				w := do(t, servers[rand.IntN(2)], request(t, http.MethodPost, "/v1/wait", wants("quick")).WithContext(ctx))
				if w.Code == http.StatusOK {
					turns.Add(1)
				} else {
					assert.Error(t, ctx.Err())
				}
			})
			time.Sleep(100 * time.Microsecond)
		}
		waits.Wait()
		permits := time.Since(began).Seconds()*100 + 1
		t.Logf("%d turns of %.0f permits", turns.Load(), permits)
		require.GreaterOrEqual(t, float64(turns.Load()), 0.99*permits-1)
	})
}

// Whoever asks again under an id that has had its turn has another one: the answer may have been
// lost, but the call may have been made, too.
func TestALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		began := time.Now()
		tokens := map[string]bool{}
		for range 20 {
			tokens[body(t, post(t, s, "/v1/wait", wants("api", `"id":"a"`))).Turn] = true
		}
		require.Len(t, tokens, 20)
		require.InDelta(t, 1.9, time.Since(began).Seconds(), 0.05)
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("burst", `"id":"a"`)).Code) // it is free again
	})
}

// Of two requests under one id the later one has the place.
func TestTwoUnderOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		for range 10 {
			go func() { post(t, s, "/v1/wait", wants("api")) }()
		}
		time.Sleep(time.Millisecond)
		var first, second int
		var both sync.WaitGroup
		began := time.Now()
		both.Go(func() { first = post(t, s, "/v1/wait", wants("api", `"id":"a"`)).Code })
		time.Sleep(100 * time.Millisecond)
		both.Go(func() { second = post(t, s, "/v1/wait", wants("api", `"id":"a"`)).Code })
		time.Sleep(100 * time.Millisecond)
		w := post(t, s, "/v1/wait", wants("burst", `"id":"a"`))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Equal(t, "id", body(t, w).Field)
		require.Equal(t, "a", body(t, w).Value)
		both.Wait()
		require.Equal(t, http.StatusConflict, first)
		require.Equal(t, http.StatusOK, second)
		require.InDelta(t, 1, time.Since(began).Seconds(), 0.05)
	})
}

// A server that dies leaves those that have ids their places: at another one they have their
// turns before those that come later.
func TestAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		first, second := newSite(t, b, server.Config{}), newSite(t, b, server.Config{})
		post(t, first, "/v1/wait", wants("api"))
		post(t, first, "/v1/pause", wants("api", `"for":"3s"`))
		var callers sync.WaitGroup
		var mu sync.Mutex
		var order []string
		ask := func(s *site, ctx context.Context, id string) {
			w := do(t, s, request(t, http.MethodPost, "/v1/wait", wants("api", `"id":"`+id+`"`)).WithContext(ctx))
			if w.Code == http.StatusOK {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, id)
			}
		}
		ctx, hangUp := context.WithCancel(t.Context())
		for _, id := range []string{"a", "b", "c"} {
			callers.Go(func() { ask(first, ctx, id) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		hangUp()
		for _, id := range []string{"d", "c", "b", "a"} {
			callers.Go(func() { ask(second, t.Context(), id) })
			time.Sleep(time.Millisecond)
		}
		callers.Wait()
		require.ElementsMatch(t, []string{"a", "b", "c"}, order[:3])
		require.Equal(t, "d", order[3])
	})
}

// A server that ends tells those that wait to ask again, and they keep their order: but for those
// whose turns are within a horizon (250 ms) of each other, and who ask at the same time.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		first, second := newSite(t, b, server.Config{}), newSite(t, b, server.Config{})
		post(t, first, "/v1/wait", wants("api"))
		post(t, first, "/v1/pause", wants("api", `"for":"3s"`))
		var callers sync.WaitGroup
		var mu sync.Mutex
		var ids []string
		for _, id := range []string{"a", "b", "c", "d", "e", ""} {
			callers.Go(func() {
				more := []string{}
				if id != "" {
					more = append(more, `"id":"`+id+`"`)
				}
				w := post(t, first, "/v1/wait", wants("api", more...))
				assert.Equal(t, http.StatusAccepted, w.Code, w.Body)
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, body(t, w).ID)
			})
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, http.StatusOK, do(t, first, request(t, http.MethodGet, "/readyz", "")).Code)
		first.Drain()
		callers.Wait()
		require.Equal(t, http.StatusServiceUnavailable, do(t, first, request(t, http.MethodGet, "/readyz", "")).Code)
		require.Equal(t, http.StatusServiceUnavailable, post(t, first, "/v1/wait", wants("api")).Code)
		require.Len(t, ids, 6)
		var turns sync.Map
		for _, id := range ids {
			callers.Go(func() {
				assert.Equal(t, http.StatusOK, post(t, second, "/v1/wait", wants("api", `"id":"`+id+`"`)).Code)
				turns.Store(id, time.Now())
			})
		}
		callers.Wait()
		when := func(id string) time.Time { at, _ := turns.Load(id); return at.(time.Time) }
		for i, first := range []string{"a", "b"} { // three turns of 100 ms before the other one
			other := string("de"[i])
			require.True(t, when(first).Before(when(other)), "%s at %v, %s at %v", first, when(first), other, when(other))
		}
	})
}

// Of a limit with a lease most calls need no round trip, and the limit holds.
func TestLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s := newSite(t, b, server.Config{})
		began := time.Now()
		for range 300 {
			require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("leased")).Code)
			time.Sleep(12 * time.Millisecond)
		}
		require.Less(t, b.Scripts.Load(), int64(150))
		for range 300 {
			require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("leased")).Code)
		}
		require.GreaterOrEqual(t, time.Since(began), 4990*time.Millisecond) // 600 calls, 100 at once
	})
}

// A place between two polls is kept, too, where the server ends.
func TestDrainBetweenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		first, second := newSite(t, b, server.Config{}), newSite(t, b, server.Config{})
		post(t, first, "/v1/wait", wants("api"))
		post(t, first, "/v1/pause", wants("api", `"for":"1s"`))
		go func() {
			time.Sleep(time.Millisecond)
			post(t, second, "/v1/pause", wants("api", `"for":"5s"`))
		}()
		w := post(t, first, "/v1/wait", wants("api", `"id":"a"`, `"poll":"2s"`))
		require.Equal(t, http.StatusAccepted, w.Code)
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() { post(t, second, "/v1/wait", wants("api")) })
		}
		time.Sleep(100 * time.Millisecond)
		first.Drain()
		require.NoError(t, first.set.Close())
		began := time.Now()
		require.Equal(t, http.StatusOK, post(t, second, "/v1/wait", wants("api", `"id":"a"`)).Code)
		require.Less(t, time.Since(began), 3200*time.Millisecond) // of the others the last comes after 3.4 s
		callers.Wait()
	})
}

// A poll of no time has a turn that is there, and does not spin.
func TestPollsOfNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		post(t, s, "/v1/wait", `{"limits":[{"name":"burst","cost":20}]}`)
		polls, id, began := 0, `"id":"a"`, time.Now()
		for w := post(t, s, "/v1/wait", wants("burst", `"poll":"0s"`, id)); w.Code != http.StatusOK; polls++ {
			require.Equal(t, http.StatusAccepted, w.Code)
			time.Sleep(time.Duration(body(t, w).Retry*float64(time.Millisecond)) + time.Millisecond)
			w = post(t, s, "/v1/wait", wants("burst", `"poll":"0s"`, id))
		}
		require.Less(t, polls, 20)
		require.InDelta(t, 100, ms(time.Since(began)), 20)
	})
}

// While Redis is away a request takes no longer than its poll, and ends with the server.
func TestPollsWhileRedisIsAway(t *testing.T) {
	for _, id := range []string{"", `,"id":"a"`} {
		synctest.Test(t, func(t *testing.T) {
			b := bubble.New(t)
			s := newSite(t, b, server.Config{})
			b.Redis.SetError("LOADING Redis is loading the dataset in memory")
			began := time.Now()
			w := post(t, s, "/v1/wait", `{"limits":[{"name":"slots"}],"poll":"5s"`+id+`}`)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Less(t, time.Since(began), 8*time.Second)
			time.AfterFunc(time.Second, s.Drain)
			began = time.Now()
			post(t, s, "/v1/wait", `{"limits":[{"name":"slots"}]`+id+`}`)
			require.Less(t, time.Since(began), 2*time.Second)
			b.Redis.SetError("")
		})
	}
}

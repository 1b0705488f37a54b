package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// A turn holds its slots until it is released, or its lease is over.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{Lease: 10 * time.Second})
		take := func() (answer, time.Duration) {
			began := time.Now()
			a := body(t, post(t, s, "/v1/wait", wants("slots")))
			require.Equal(t, ms(10*time.Second), a.Lease)
			return a, time.Since(began)
		}
		of := func(a answer) string { return `{"turn":"` + a.Turn + `"}` }
		first, _ := take()
		second, _ := take()
		state := do(t, s, request(t, http.MethodGet, "/v1/limits/slots", ""))
		require.NotContains(t, state.Body.String(), "wait_ms", "nobody knows")
		require.Len(t, body(t, state).Holders, 2)
		require.Contains(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", "")).Body.String(), `"wait_ms":0`)

		time.AfterFunc(time.Second, func() {
			require.Equal(t, http.StatusNoContent, post(t, s, "/v1/release", of(first)).Code)
		})
		third, waited := take()
		require.InDelta(t, 1, waited.Seconds(), 0.1)
		require.Equal(t, http.StatusNotFound, post(t, s, "/v1/release", of(first)).Code)

		for range 3 { // it is renewed, and the other one is not
			time.Sleep(4 * time.Second)
			w := post(t, s, "/v1/renew", of(third))
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, ms(10*time.Second), body(t, w).Lease)
		}
		_, waited = take()
		require.Less(t, waited, 100*time.Millisecond)
		require.Equal(t, http.StatusNotFound, post(t, s, "/v1/renew", of(second)).Code)
		_, waited = take()
		require.InDelta(t, 10, waited.Seconds(), 0.2)
	})
}

// A caller that names itself is seen where its call holds slots. Its place is its own: it ends when it hangs up.
func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		take := func(ctx context.Context, more ...string) answer {
			r := request(t, http.MethodPost, "/v1/wait", wants("slots", more...)).WithContext(ctx)
			r.Header.Set("Fleetpace-Caller", "web 3/\x1b4711")
			w := do(t, s, r)
			return body(t, w)
		}
		first := take(t.Context())
		require.NotEmpty(t, first.Turn)
		named := take(t.Context(), `"id":"job-17"`)
		require.NotEmpty(t, named.Turn)
		shown := do(t, s, request(t, http.MethodGet, "/v1/limits/slots", "")).Body.String()
		require.Contains(t, shown, `"doing":"http:web_3/_4711/`)
		require.Contains(t, shown, `"doing":"http/web_3/_4711 job-17"`)
		require.Equal(t, http.StatusOK, post(t, s, "/v1/renew", `{"turn":"`+named.Turn+`"}`).Code)

		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		take(ctx)
		post(t, s, "/v1/release", `{"turn":"`+first.Turn+`"}`)
		time.Sleep(time.Second)
		now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/slots", "")))
		require.Equal(t, []int{0, 0, 1}, []int{now.Waiting, now.Booked, len(now.Holders)})

		post(t, s, "/v1/wait", wants("slots"))
		later := take(t.Context(), `"poll":"0s"`)
		require.Contains(t, later.ID, "web_3/_4711/")
		require.NotEmpty(t, take(t.Context(), `"id":"`+later.ID+`"`).Turn, "the leases have ended")
	})
}

// A turn that was let through while Redis was away has no lease, because it holds no slots.
func TestTheLeaseOfATurnWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s := newSite(t, b, server.Config{})
		b.Redis.SetError("LOADING Redis is loading the dataset in memory")
		w := post(t, s, "/v1/wait", wants("loose"))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Zero(t, body(t, w).Lease)
	})
}

// An id that is used again, after a release or a leave, has slots of its own.
func TestSlotsOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		mine := wants("slots", `"id":"a"`)
		first := body(t, post(t, s, "/v1/wait", mine)).Turn
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/release", `{"turn":"`+first+`"}`).Code)
		for range 2 {
			require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", mine).Code)
			post(t, s, "/v1/leave", mine)
		}
		require.Equal(t, http.StatusTooManyRequests, post(t, s, "/v1/wait", wants("slots", `"max_wait":"1s"`)).Code)
	})
}

// What a call did not use lets the next one come earlier. Any server settles it, and once.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s, other := newSite(t, b, server.Config{}), newSite(t, b, server.Config{})
		cost := `{"limits":[{"name":"tokens","cost":100}]}`
		turn := body(t, post(t, s, "/v1/wait", cost)).Turn
		require.Equal(t, http.StatusBadRequest, post(t, s, "/v1/settle", `{"turn":"`+turn+`","used":[1,2]}`).Code)
		for _, at := range []*site{other, s, other} {
			require.Equal(t, http.StatusNoContent, post(t, at, "/v1/settle", `{"turn":"`+turn+`","used":[10]}`).Code)
		}
		began := time.Now()
		post(t, s, "/v1/wait", cost)
		require.InDelta(t, 1, time.Since(began).Seconds(), 0.1)
	})
}

// Allow takes a turn that is there now, or says when one would be.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		w := post(t, s, "/v1/allow", wants("slow"))
		require.Equal(t, http.StatusOK, w.Code)
		require.True(t, body(t, w).Allowed)
		w = post(t, s, "/v1/allow", wants("slow"))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.Equal(t, `"slow";q=1;w=60`, w.Header().Get("RateLimit-Policy"))
		require.InDelta(t, 60, body(t, w).After, 0.1)

		w = post(t, s, "/v1/allow", `{"limits":[{"name":"both-a"},{"name":"both-b"}]}`)
		require.Equal(t, http.StatusOK, w.Code)
		require.Len(t, w.Header().Values("RateLimit"), 2)
	})
}

// Turns that are taken ahead are there for nobody else, as many as there are.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		ahead := wants("burst", `"ahead":15`)
		a := body(t, post(t, s, "/v1/allow", ahead))
		require.Equal(t, 15, a.Taken)
		require.InDelta(t, ms(1500*time.Millisecond), a.Valid, 1)
		require.Equal(t, 5, *a.Left)
		require.Equal(t, 5, body(t, post(t, s, "/v1/allow", ahead)).Taken)
		w := post(t, s, "/v1/allow", ahead)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Zero(t, body(t, w).Taken)

		a = body(t, post(t, s, "/v1/allow", wants("day", `"ahead":50`)))
		require.Equal(t, 50, a.Taken)
		require.InDelta(t, ms(24*time.Hour), a.Valid, ms(time.Minute))
	})
}

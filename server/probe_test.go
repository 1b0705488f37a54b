package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// Callers of two servers, with and without ids, meet a hard stop: one call of them all probes it every five minutes.
// A call that is served ends it, and so does a resume.
func TestHardStopIsProbed(t *testing.T) {
	for _, c := range []struct{ limit, more string }{
		{"api", `"poll":"1s"`}, {"api", `"id":"x"`}, {"tokens", `"max_wait":"1s"`}, {"ten", `"poll":"1s"`}, {"ten", `"id":"x"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := bubble.New(t)
			servers := []*site{newSite(t, b, server.Config{}), newSite(t, b, server.Config{})}
			l, err := servers[0].set.Get(c.limit)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, post(t, servers[0], "/v1/wait", wants(c.limit)).Code)
			defer time.AfterFunc(20*time.Minute, func() { panic("a request got no answer") }).Stop() // else time runs on
			stopped := time.Now()
			require.NoError(t, l.Stop(t.Context(), time.Time{}, "no credit"))
			time.Sleep(time.Second)
			var probe string
			var probed []time.Duration
			for time.Since(stopped) < 11*time.Minute {
				for _, s := range servers {
					w := post(t, s, "/v1/wait", wants(c.limit, c.more))
					if w.Code == http.StatusOK {
						require.Contains(t, w.Body.String(), `"probes":true`)
						probe = body(t, w).Turn
						probed = append(probed, time.Since(stopped).Round(time.Minute))
						require.Equal(t, http.StatusNoContent, post(t, s, "/v1/settle", `{"turn":"`+probe+`","used":[-1]}`).Code)
					}
				}
				time.Sleep(time.Minute)
			}
			require.Len(t, probed, 2, "%v: at %v", c, probed)
			require.Equal(t, http.StatusTooManyRequests, post(t, servers[1], "/v1/wait", wants(c.limit)).Code)
			require.Equal(t, http.StatusNoContent, post(t, servers[1], "/v1/settle", `{"turn":"`+probe+`","used":[-1],"served":true}`).Code)
			require.Equal(t, http.StatusOK, post(t, servers[0], "/v1/wait", wants(c.limit)).Code)

			require.NoError(t, l.Stop(t.Context(), time.Time{}, "no credit"))
			time.Sleep(time.Second)
			require.Equal(t, http.StatusNoContent, post(t, servers[1], "/v1/settle", `{"turn":"`+probe+`","used":[-1],"served":true}`).Code)
			time.Sleep(time.Second)
			require.Equal(t, http.StatusTooManyRequests, post(t, servers[1], "/v1/wait", wants(c.limit)).Code, "a late probe of the stop before")
			require.Equal(t, http.StatusNoContent, post(t, servers[0], "/v1/resume", wants(c.limit)).Code)
			require.Equal(t, http.StatusOK, post(t, servers[1], "/v1/wait", wants(c.limit)).Code)
		})
	}
}

// Callers meet a hard stop after they got an id from the server: they get 429 with its reason, end and scope, those that
// wait within a second and others when they come back, from any server. No place and no booking is left. So it is with
// an id of their own and a max_wait. With such an id alone, the call is booked.
func TestHardStopOfCallersWithIDs(t *testing.T) {
	for _, c := range []struct {
		limit, caller string
		own           bool
	}{{"slow", "", false}, {"slots", "", false}, {"slots", "web-3/4711", false}, {"slow", "", true}, {"slots", "", true}} {
		for _, until := range []time.Time{{}, time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)} {
			t.Run(fmt.Sprint(c, until.Year()), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { hardStopOfCallersWithIDs(t, c.limit, c.caller, c.own, until) })
			})
		}
	}
}

func hardStopOfCallersWithIDs(t *testing.T, limit, caller string, own bool, until time.Time) {
	b := bubble.New(t)
	servers := []*site{newSite(t, b, server.Config{}), newSite(t, b, server.Config{})}
	ask := func(s *site, more ...string) *httptest.ResponseRecorder {
		r := request(t, http.MethodPost, "/v1/wait", wants(limit, more...))
		r.Header.Set("Fleetpace-Caller", caller)
		return do(t, s, r)
	}
	l, err := servers[0].set.Get(limit)
	require.NoError(t, err)
	for range l.Limit().MaxBurst() { // the next turn is in a minute, or never
		_, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	stopped := time.Now().Add(50 * time.Second)
	var callers sync.WaitGroup
	for i := range 6 {
		more := []string{`"poll":"20s"`}
		id := ""
		if own {
			id, more = fmt.Sprint("job-", i), append(more, `"max_wait":"20m"`)
		}
		callers.Go(func() {
			for k := 0; ; k++ {
				terms := more
				if id != "" {
					terms = append(terms, `"id":"`+id+`"`)
				}
				sent := time.Now()
				w := ask(servers[(i+k)%2], terms...)
				if w.Code == http.StatusAccepted && time.Now().Before(stopped) {
					id = body(t, w).ID
					time.Sleep(ofMillis(body(t, w).Retry))
					continue
				}
				var p struct {
					Title, Reason, Scope string
					Until                time.Time
				}
				assert.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
				assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
				assert.Equal(t, []any{"Exhausted", "no credit", limit, until}, []any{p.Title, p.Reason, p.Scope, p.Until.UTC()}, w.Body)
				if sent.Before(stopped) {
					sent = stopped
				}
				assert.Less(t, time.Since(sent), time.Second)
				return
			}
		})
	}
	time.Sleep(time.Until(stopped))
	require.NoError(t, l.Stop(t.Context(), until, "no credit"))
	callers.Wait()
	time.Sleep(2 * time.Second)
	state, err := l.State(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 0}, []int64{state.Waiting, state.Booked})
	if own {
		assert.Equal(t, http.StatusAccepted, ask(servers[1], `"id":"job-0"`, `"poll":"0s"`).Code)
	}
}

// If a hard stop ends before a call has asked whether it may probe it, the call does not wait at the limit for that.
func TestProbeDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		slow := b.Limiter(b.Client(), reserve.Config{Name: "slow", Limit: reserve.Every(time.Minute)})
		b.Way = 5 * time.Millisecond
		s := newSite(t, b, server.Config{})
		require.NoError(t, slow.Wait(t.Context()))
		require.Equal(t, http.StatusTooManyRequests, post(t, s, "/v1/allow", wants("slow")).Code)
		for in := time.Millisecond; in < 30*time.Millisecond; in += 2 * time.Millisecond {
			require.NoError(t, slow.Stop(t.Context(), time.Time{}, "no credit"))
			time.Sleep(time.Second)
			time.AfterFunc(in, func() { _ = slow.Resume(t.Context()) })
			began := time.Now()
			require.Equal(t, http.StatusTooManyRequests, post(t, s, "/v1/wait", wants("slow", `"poll":"2s"`)).Code)
			require.Less(t, time.Since(began), time.Second, "a stop that ended after %v", in)
			time.Sleep(time.Second)
		}
	})
}

// Anybody can write the token of a turn that probes. So ending a stop needs the right to operate, too.
func TestServedNeedsTheRightToOperate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte("turns worker\nturns both\noperate both\n"), 0o600))
		s := newSite(t, bubble.New(t), server.Config{TokenFile: path})
		as := func(token, path, body string) int {
			r := request(t, http.MethodPost, path, body)
			r.Header.Set("Authorization", "Bearer "+token)
			return do(t, s, r).Code
		}
		l, err := s.set.Get("api")
		require.NoError(t, err)
		ends := time.Now().Add(24 * time.Hour)
		require.NoError(t, l.Stop(t.Context(), time.Time{}, "no credit"))
		time.Sleep(time.Second)
		turn := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"limits":[{"name":"api"}],"Probes":[%d]}`, ends.UnixMicro()))
		for _, c := range []struct {
			token string
			then  int
		}{{"worker", http.StatusTooManyRequests}, {"both", http.StatusOK}} {
			require.Equal(t, http.StatusNoContent, as(c.token, "/v1/settle", `{"turn":"`+turn+`","used":[-1],"served":true}`))
			require.Equal(t, c.then, as(c.token, "/v1/wait", wants("api")))
		}
	})
}

package reservetest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

// The API is strict: whatever is too early is refused, and recorded.
func TestAPI(t *testing.T) {
	for _, c := range []struct {
		limits []reserve.Limit
		moment []time.Duration
		status []int
	}{
		{[]reserve.Limit{reserve.PerSecond(1)}, []time.Duration{0, 999 * time.Millisecond, time.Second}, []int{200, 429, 200}},
		{[]reserve.Limit{reserve.PerSecond(1).Burst(2)}, []time.Duration{0, 0, 0}, []int{200, 200, 429}},
		{[]reserve.Limit{reserve.Rolling(2, time.Minute)}, []time.Duration{0, 30 * time.Second, 59 * time.Second, 60 * time.Second}, []int{200, 200, 429, 200}},
		// Bubbles begin at midnight.
		{[]reserve.Limit{reserve.Quota(1, reserve.CalendarMinute)}, []time.Duration{50 * time.Second, 59 * time.Second, time.Minute}, []int{200, 429, 200}},
		{[]reserve.Limit{reserve.Quota(1, reserve.CalendarMinute).Margin(time.Second)}, []time.Duration{50 * time.Second, 59 * time.Second, time.Minute}, []int{200, 429, 200}},
		{[]reserve.Limit{reserve.Quota(1, reserve.CalendarDay)}, []time.Duration{0, 23 * time.Hour, 24 * time.Hour}, []int{200, 429, 200}},
		{[]reserve.Limit{reserve.PerSecond(10), reserve.Quota(1, reserve.CalendarHour)}, []time.Duration{0, time.Minute, time.Hour}, []int{200, 429, 200}},
		{nil, []time.Duration{0, 0, 0}, []int{200, 200, 200}},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := reservetest.NewAPIHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }), c.limits...)
				began, refused := time.Now(), 0
				for i, at := range c.moment {
					time.Sleep(time.Until(began.Add(at)))
					response, err := api.Client().Post("http://api.example/items", "text/plain", strings.NewReader("x"))
					require.NoError(t, err)
					body, err := io.ReadAll(response.Body)
					require.NoError(t, err)
					assert.Equal(t, c.status[i], response.StatusCode, "request %d", i+1)
					assert.Equal(t, response.StatusCode == 200, string(body) == "ok")
					if response.StatusCode == http.StatusTooManyRequests {
						refused++
						assert.NotEmpty(t, response.Header.Get("Retry-After"))
					}
					request := api.Requests()[i]
					assert.Equal(t, reservetest.Request{At: began.Add(at), Method: "POST", Path: "/items", Refused: response.StatusCode == 429}, request)
				}
				assert.Equal(t, refused, api.Refused())
			})
		})
	}
}

// With real connections, too.
func TestAPIOverTheNetwork(t *testing.T) {
	api := reservetest.NewAPI(t, reserve.PerHour(1))
	server := httptest.NewServer(api)
	defer server.Close()
	for _, status := range []int{200, 429} {
		response, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode)
	}
}

// A handler has what it has of a real server, either way, and answers for itself: what it refuses
// is not refused by the limits.
func TestHandlers(t *testing.T) {
	var arrived []string
	api := reservetest.NewAPIHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, _, err = net.SplitHostPort(r.RemoteAddr)
		assert.NoError(t, err)
		arrived = append(arrived, fmt.Sprintf("%s %s %s %s %q %q %s", r.Method, r.Host, r.RequestURI, r.URL, body, r.Header.Get("Authorization"), r.FormValue("q")))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	server := httptest.NewServer(api)
	defer server.Close()
	for _, path := range []string{"", "/", "/a%2Fb//c?q=1+2"} {
		for _, client := range []*http.Client{server.Client(), api.Client()} {
			for _, body := range []io.Reader{nil, strings.NewReader("hello")} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(server.URL, "//", "//me:secret@", 1)+path, body)
				require.NoError(t, err)
				request.Host = "" // as of its address
				response, err := client.Do(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
			}
		}
		require.Equal(t, arrived[:2], arrived[2:], "as of a real server")
		arrived = nil
	}
	require.Zero(t, api.Refused())
}

// A client that has no patience leaves an API that is slow.
func TestSlowAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := reservetest.NewAPIHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		client := api.Client()
		client.Timeout = time.Second
		began := time.Now()
		_, err := client.Get("http://api.example") //nolint:bodyclose // there is no answer
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		client.Timeout = 2 * time.Minute
		response, err := client.Get("http://api.example")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, api.Requests(), 2)
	})
}

// Requests that come at once are judged one by one.
func TestRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := reservetest.NewAPI(t, reserve.PerSecond(1).Burst(30))
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				response, err := api.Client().Get("http://api.example")
				if assert.NoError(t, err) {
					assert.NoError(t, response.Body.Close())
				}
			})
		}
		clients.Wait()
		require.Len(t, api.Requests(), 100)
		require.Equal(t, 70, api.Refused())
	})
}

// A request whose context has ended is not one.
func TestEndedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := reservetest.NewAPI(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example", nil)
		require.NoError(t, err)
		_, err = api.Client().Do(request) //nolint:bodyclose // there is no answer
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, api.Requests())
	})
}

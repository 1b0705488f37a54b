package transport_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// serving counts the requests whose answers are not read to their end.
type serving struct {
	now, most atomic.Int32
	fails     atomic.Int32 // so many requests have no answer
}

func (s *serving) RoundTrip(r *http.Request) (*http.Response, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	time.Sleep(30 * time.Millisecond)
	if s.fails.Add(-1) >= 0 {
		s.now.Add(-1)
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body{strings.NewReader("text"), s}, Request: r}, nil
}

type body struct {
	io.Reader
	of *serving
}

func (b body) Close() error {
	b.of.now.Add(-1)
	return nil
}

// TestConcurrent: a request holds its slot until its body is closed, or it has failed. A rate
// beside the slots is used to the full.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, calls = 3, 60
		b := bubble.New(t)
		both := b.Joint(b.Client(),
			reserve.Config{Name: "slots", Limit: reserve.Concurrent(slots)},
			reserve.Config{Name: "rate", Limit: reserve.PerSecond(20)})
		var api serving
		api.fails.Store(5)
		paced := newTransport(t, transport.Config{Limiter: both, Base: &api})
		var all sync.WaitGroup
		began := time.Now()
		for range calls {
			all.Go(func() {
				response, err := paced.RoundTrip(newRequest(t, "GET", "http://api", nil))
				if err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond) // it is read
				assert.NoError(t, response.Body.Close())
			})
		}
		all.Wait()
		t.Logf("MEASURE %v for %d calls at 20/s", time.Since(began), calls)
		assert.LessOrEqual(t, int(api.most.Load()), slots)
		assert.LessOrEqual(t, time.Since(began), 3300*time.Millisecond)
		time.Sleep(time.Second)
		states, err := both.States(t.Context())
		require.NoError(t, err)
		assert.Empty(t, states[0].Holders)
	})
}

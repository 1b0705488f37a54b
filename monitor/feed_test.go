package monitor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
)

// A process stands still for minutes between a look and the event that tells of it: the feed has
// ended meanwhile, and begins again.
func TestEventsAfterTheFeedHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(bubble.New(t).Client(), Config{})
		require.NoError(t, err)
		f := p.feed
		news := make(chan struct{})
		f.running, f.last, f.news = true, &snapshot{text: []byte("first")}, news

		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		var viewer sync.WaitGroup
		viewer.Go(func() { p.events(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)) })
		synctest.Wait()
		f.mu.Lock()
		close(news)
		f.news, f.running = make(chan struct{}), false
		f.mu.Unlock()
		time.Sleep(2500 * time.Millisecond)
		cancel()
		viewer.Wait()
		require.NoError(t, p.Close())
		require.Contains(t, w.Body.String(), "data: first")
		require.Equal(t, 3, strings.Count(w.Body.String(), `"limits":[]`), w.Body)
	})
}

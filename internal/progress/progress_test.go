package progress

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlainLines proves what a log shows: a line every 2 s and one at the end,
// with a rate and an ETA that leave out what was done before.
func TestPlainLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	synctest.Test(t, func(t *testing.T) {
		f, err := os.Create(path)
		require.NoError(t, err)
		b := New(f, "batch", 500)
		b.Set(200)
		for i := range 300 {
			time.Sleep(20 * time.Millisecond)
			b.Set(201 + i)
			if i == 250 {
				b.Describe("3 retried")
			}
		}
		b.Close()
		b.Close()
		require.NoError(t, f.Close())
	})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	// The loop and the display wake at the same moment, in either order; the
	// display may see the record that ends just then or not.
	require.GreaterOrEqual(t, len(lines), 3)
	assert.Regexp(t, `^batch: (299|300)/500, (49\.5|50\.0)/s, 4s left$`, lines[0])
	assert.Regexp(t, `^batch: (399|400)/500, (49\.8|50\.0)/s, 2s left$`, lines[1])
	assert.Equal(t, "batch: 500/500, 50.0/s, 6s, 3 retried", lines[len(lines)-1])
}

func TestLine(t *testing.T) {
	t0 := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		state   state
		elapsed time.Duration
		want    string
	}{
		{state{title: "a", total: 10}, 0, "a: 0/10, 0s"},
		{state{title: "a", total: 10}, 3 * time.Second, "a: 0/10, 3s"},
		{state{title: "a", total: 0}, time.Second, "a: 0/0, 1s"},
		{state{title: "a", total: -1, done: 7}, 2 * time.Second, "a: 7, 3.5/s, 2s"},
		{state{title: "a", total: 7200, done: 1}, 5 * time.Second, "a: 1/7200, 0.200/s, 9h59m55s left"},
		{state{title: "a", total: 50000, done: 20000}, 10 * time.Second, "a: 20000/50000, 2000/s, 15s left"},
		{state{title: "a", total: 10, done: 10, before: 10, description: "x"}, time.Second, "a: 10/10, 1s, x"},
		{state{title: "a", total: 10, done: 12}, time.Second, "a: 12/10, 12.0/s, 1s"},
	} {
		tt.state.began = t0
		assert.Equal(t, tt.want, tt.state.line(t0.Add(tt.elapsed)))
	}
}

// screen is a writer that a terminal bar may write to from its own goroutine.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// lastLine is what is left standing on the screen's last line but one.
func (s *screen) lastLine(t *testing.T) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ended := strings.CutSuffix(s.text.String(), "\n")
	require.True(t, ended, "the display ends with a line break")
	assert.NotContains(t, text, "\n", "a terminal bar stays on its line")
	return strings.TrimSpace(text[strings.LastIndex(text, "\r")+1:])
}

// TestTerminal proves that the bar is redrawn on one line and ends with the last
// state, whether the total is reached, missed, passed or unknown.
func TestTerminal(t *testing.T) {
	for _, tt := range []struct {
		total, done int
		want        string
	}{
		{50, 50, "100% ▕*▏  batch: 50/50, 50.0/s, 1s, done"},
		{100, 50, "50% ▕*▏  batch: 50/100, 50.0/s, 1s left, done"},
		{40, 50, "100% ▕*▏  batch: 50/40, 50.0/s, 1s, done"},
		{-1, 50, " batch: 50, 50.0/s, 1s, done"},
		{0, 0, " batch: 0/0, 1s, done"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &screen{}
			b := start(s, true, "batch", tt.total)
			b.Set(0)
			for i := range 50 {
				time.Sleep(20 * time.Millisecond)
				b.Set(min(tt.done, i+1))
			}
			b.Describe("done")
			b.Close()
			got := s.lastLine(t)
			before, after, hasBar := strings.Cut(tt.want, "*")
			if !hasBar {
				assert.True(t, strings.HasSuffix(got, tt.want), "got %q", got)
				return
			}
			assert.True(t, strings.HasPrefix(got, before), "got %q", got)
			assert.True(t, strings.HasSuffix(got, after), "got %q", got)
			assert.Greater(t, strings.Count(s.text.String(), "\r"), 10, "it is live")
		})
	}
}

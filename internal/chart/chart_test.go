package chart

import (
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
)

var t0 = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// history is ten seconds at 50/s with a peak of 20 more calls after 6 s, judged by a provider with a burst
// of 10.
func history() []provider.Call {
	p := provider.New(provider.TokenBucket(50, 10))
	for i := range 500 {
		at := t0.Add(time.Duration(i) * 20 * time.Millisecond)
		p.JudgeAt(at, 1)
		if i == 300 {
			for range 20 {
				p.JudgeAt(at, 1)
			}
		}
	}
	return p.History()
}

// TestCount proves that evenly spaced calls give even bars even when they
// jitter, and that permits are counted, not calls.
func TestCount(t *testing.T) {
	var calls []provider.Call
	for i := range 50 {
		jitter := time.Duration(i%7-3) * time.Millisecond
		if i == 0 {
			jitter = 0
		}
		calls = append(calls, provider.Call{At: t0.Add(time.Duration(i)*20*time.Millisecond + jitter), N: 1})
	}
	calls = append(calls, provider.Call{At: t0.Add(time.Second), N: 3, Refused: true})

	b := count(calls, 100*time.Millisecond, 50)
	assert.Equal(t, 100*time.Millisecond, b.bin)
	assert.Equal(t, []int{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0}, b.accepted)
	assert.Equal(t, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, b.refused)
	assert.Equal(t, 5, b.tallest())
	accepted, refused := b.totals()
	assert.Equal(t, 50, accepted)
	assert.Equal(t, 3, refused)
}

// TestCountWidens proves that a long history loses no call and that the wider bin is a round number.
func TestCountWidens(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		0:                 100 * time.Millisecond,
		39 * time.Second:  100 * time.Millisecond,
		time.Minute:       200 * time.Millisecond,
		100 * time.Second: 500 * time.Millisecond,
		300 * time.Second: time.Second,
		time.Hour:         10 * time.Second,
	} {
		calls := []provider.Call{{At: t0, N: 1}, {At: t0.Add(length / 2), N: 1, Refused: true}, {At: t0.Add(length), N: 1}}
		b := count(calls, 100*time.Millisecond, 50)
		assert.Equal(t, want, b.bin, "length %v", length)
		accepted, refused := b.totals()
		assert.Equal(t, 2, accepted)
		assert.Equal(t, 1, refused)
		assert.LessOrEqual(t, len(b.accepted), maxBins+1)
	}
}

// TestPNG proves that the picture has both colours where they belong: only the peak is refused.
func TestPNG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.png")
	require.NoError(t, Requests(path, "A peak after six seconds", history(), 100*time.Millisecond, 50))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	img, err := png.Decode(f)
	require.NoError(t, err)
	assert.Equal(t, image.Pt(1440, 612), img.Bounds().Size())

	// Below the legend; left and right of the middle.
	middle := img.Bounds().Dx() / 2
	top := 130
	accepted, refused := pixels(img, image.Rect(0, top, middle, img.Bounds().Dy()))
	assert.Greater(t, accepted, 1_000)
	assert.Zero(t, refused)
	accepted, refused = pixels(img, image.Rect(middle, top, img.Bounds().Dx(), img.Bounds().Dy()))
	assert.Greater(t, accepted, 1_000)
	assert.Greater(t, refused, 20)
}

// pixels counts every third pixel of every third line, which is enough.
func pixels(img image.Image, area image.Rectangle) (accepted, refused int) {
	for y := area.Min.Y; y < area.Max.Y; y += 3 {
		for x := area.Min.X; x < area.Max.X; x += 3 {
			switch color.NRGBAModel.Convert(img.At(x, y)) {
			case acceptedColor:
				accepted++
			case refusedColor:
				refused++
			}
		}
	}
	return accepted, refused
}

// TestSVG proves that the SVG is well-formed XML and says in words what it
// shows, whatever characters the title has.
func TestSVG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.SVG")
	calls := history()
	require.NoError(t, Requests(path, `Tom & "Jerry" <1>`, calls, 100*time.Millisecond, 50))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, strings.Count(string(raw), "<text"), strings.Count(string(raw), "Arial"), "each text names a font that is common")
	var words strings.Builder
	for d := xml.NewDecoder(strings.NewReader(string(raw))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if chars, ok := token.(xml.CharData); ok {
			words.Write(chars)
		}
	}
	for _, want := range []string{
		`Tom & "Jerry" <1>`, "accepted: 509", "refused: 11",
		"limit: 50 per second = 5 per 100 ms", "requests per 100 ms", "seconds since the first request",
	} {
		assert.Contains(t, words.String(), want)
	}
}

func TestOneCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.svg")
	require.NoError(t, Requests(path, "One", history()[:1], time.Second, 0.2))
}

func TestWrongInput(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		path      string
		calls     []provider.Call
		bin       time.Duration
		perSecond float64
		want      string
	}{
		{"a.svg", nil, time.Second, 1, "no calls"},
		{"a.svg", history(), 0, 1, "bin 0s"},
		{"a.svg", history(), time.Second, 0, "perSecond 0"},
		{"a.gif", history(), time.Second, 1, `".gif": want .svg or .png`},
		{"no/such/dir/a.png", history(), time.Second, 1, "no such file or directory"},
	} {
		err := Requests(filepath.Join(dir, tt.path), "", tt.calls, tt.bin, tt.perSecond)
		assert.ErrorContains(t, err, tt.want)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTicks(t *testing.T) {
	labels := func(m roundTicks, low, high float64) string {
		var s []string
		for _, tick := range m.Ticks(low, high) {
			s = append(s, tick.Label)
		}
		return strings.Join(s, " ")
	}
	assert.Equal(t, "0 1 2 3 4 5", labels(roundTicks{8, 1}, 0, 5.6))
	assert.Equal(t, "0", labels(roundTicks{8, 1}, 0, 0.5))
	assert.Equal(t, "0 5 10 15 20 25 30", labels(roundTicks{8, 1}, 0, 33))
	assert.Equal(t, "0 1 2 3 4 5 6 7 8 9 10 11", labels(roundTicks{14, 0}, -0.01, 11.1))
	assert.Equal(t, "0 0.01 0.02 0.03 0.04 0.05 0.06 0.07 0.08 0.09 0.1", labels(roundTicks{14, 0}, -0.001, 0.1))
	assert.Equal(t, "0 500 1000 1500 2000 2500 3000 3500", labels(roundTicks{14, 0}, 0, 3600))
}

package integration

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // Save writes PNG
)

// faultCharts is a folder. If it is set, each fault draws a chart there.
const faultCharts = "FLEETPACE_FAULT_CHARTS"

// draw draws calls per 100 ms, with the time of the fault shaded.
func (s *faultScene) draw(f faultFigures) {
	s.Helper()
	dir := os.Getenv(faultCharts)
	if dir == "" {
		return
	}
	require.NoError(s, os.MkdirAll(dir, 0o755))
	since := func(t time.Time) float64 { return t.Sub(s.start).Seconds() }
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: %d calls, %d refused, %d lost", s.name, f.Calls, f.Refused, f.Lost)
	p.X.Label.Text = "seconds; the fault is shaded"
	p.Y.Label.Text = "calls per 100 ms"
	p.X.Max = since(s.end)
	p.Y.Max = 3 * faultRate / 10
	p.Add(faultBars{s.broken.Sub(s.start).Seconds(), since(s.mended), s.bins()})
	require.NoError(s, p.Save(10*vg.Inch, 4*vg.Inch, filepath.Join(dir, s.name+".png")))
}

// bins are the calls of each 100 ms, from the start.
func (s *faultScene) bins() []int {
	const bin = 100 * time.Millisecond
	bins := make([]int, s.end.Sub(s.start)/bin+1)
	for _, c := range between(s.history(), s.start, s.end) {
		bins[c.At.Sub(s.start)/bin]++
	}
	return bins
}

// faultBars is the content of the chart. Bars that are too high are cut at its edge.
type faultBars struct {
	broken, mended float64
	bins           []int
}

func (b faultBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	box := func(from, to, high float64, fill color.Color) {
		c.SetColor(fill)
		c.Fill(vg.Rectangle{
			Min: vg.Point{X: x(from), Y: y(0)}, Max: vg.Point{X: x(to), Y: y(min(high, p.Y.Max))},
		}.Path())
	}
	const narrow = 0.03 // the least width, so that every event shows
	box(b.broken, max(b.mended, b.broken+narrow), p.Y.Max, color.NRGBA{R: 0xf4, G: 0xc9, B: 0xb8, A: 0xff})
	for i, n := range b.bins {
		box(float64(i)/10+0.01, float64(i+1)/10-0.01, float64(n), color.NRGBA{R: 0x56, G: 0x9f, B: 0xd6, A: 0xff})
	}
	limit := y(faultRate / 10)
	c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: vg.Points(1)}, c.Min.X, limit, c.Max.X, limit)
}

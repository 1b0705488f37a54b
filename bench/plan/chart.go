package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// leases are those that the chart has a line for, with their colours, which differ for
// colour-blind readers and, by their dashes, in a grey print.
var leases = []struct {
	lease  time.Duration
	name   string
	color  color.Color
	dashes []vg.Length
}{
	{0, "no lease", color.NRGBA{R: 0xd5, G: 0x3e, A: 0xff}, nil},
	{100 * time.Millisecond, "lease 100ms", color.NRGBA{R: 0x56, G: 0x9f, B: 0xd6, A: 0xff}, []vg.Length{7, 3}},
	{time.Second, "lease 1s", color.NRGBA{R: 0x1b, G: 0x26, B: 0x31, A: 0xff}, []vg.Length{2, 3}},
}

const (
	chartWidth, chartHeight         = 9 * vg.Inch, 4.6 * vg.Inch
	chartSteps                      = 200
	chartDecadesBelow, chartDecades = 1, 4 // of the plan's rate, and in all
)

// drawChart writes the cores against the rate, for some leases, as SVG. Nothing waits
// in it: where calls wait, there are no permits to lease.
func drawChart(path string, w workload, t terms, c calibration) error {
	w.Waiting = 0
	low := math.Pow(10, math.Floor(math.Log10(w.Rate))-chartDecadesBelow)
	high := min(low*math.Pow(10, chartDecades), mostRate)
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Redis cores: processes %d, limits %d, names %d", w.Processes, w.Limits, w.Names)
	p.X.Label.Text, p.Y.Label.Text = "calls per second of the fleet; nothing waits", "cores"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	add := func(name string, style draw.LineStyle, cores func(rate float64) float64) error {
		points := make(plotter.XYs, chartSteps+1)
		for i := range points {
			rate := low * math.Pow(high/low, float64(i)/chartSteps)
			points[i] = plotter.XY{X: rate, Y: cores(rate)}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.LineStyle = style
		p.Add(line)
		p.Legend.Add(name, line)
		return nil
	}
	for _, l := range leases {
		err := add(l.name, draw.LineStyle{Color: l.color, Width: 2, Dashes: l.dashes}, func(rate float64) float64 {
			at := w
			at.Lease, at.Rate = l.lease, rate
			return coresOf(at, c)
		})
		if err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	allowed := func(float64) float64 { return t.Load * float64(w.Names) }
	if err := add("-load × names", draw.LineStyle{Color: color.Gray{0x70}, Width: 1, Dashes: []vg.Length{10, 4}}, allowed); err != nil {
		return fmt.Errorf("-chart: %w", err)
	}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var picture bytes.Buffer // so that a failure leaves no half a picture
	if _, err := canvas.WriteTo(&picture); err != nil {
		return fmt.Errorf("-chart: %w", err)
	}
	if err := os.WriteFile(path, picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("-chart: %w", err)
	}
	return nil
}

package cost

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// table prints a row per case and contender, and when and where it was measured.
func table(w io.Writer, all []Figure, busy bool) error {
	beside := ""
	if busy {
		beside = ", beside a busy process per processor"
	}
	fmt.Fprintf(w, "%s, %d processors%s\n", time.Now().Format(time.DateOnly), runtime.NumCPU(), beside)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\tcontender\tµs per call\tas fast as redis_rate\tcommands per call\tµs of scripts per call\tof redis_rate's\tlapsed\tallocations\tbytes\t")
	for _, f := range all {
		fmt.Fprintf(t, "%s\t%s\t%.3g\t%.2f ×\t%.4g\t%.3g\t%.2f ×\t%.2f %%\t%.3g\t%.0f\t\n",
			f.Case, f.Contender, f.Nanos/1000, f.Ratio, f.Commands, f.RedisMicros, f.RedisRatio, f.Lapsed, f.Allocs, f.Bytes)
	}
	return t.Flush()
}

// ticks are the powers of ten of an axis that shows durations.
type ticks struct{}

func (ticks) Ticks(low, high float64) (all []plot.Tick) {
	for at := math.Pow(10, math.Floor(math.Log10(low))); at <= high; at *= 10 {
		all = append(all, plot.Tick{Value: at, Label: time.Duration(at).String()})
	}
	return all
}

// draw draws a line per contender: time per call against callers, both axes logarithmic.
func draw(path string, all []Figure) error {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Title.Text = "What a call costs: time per call, all callers of a process together"
	p.X.Label.Text = "callers that ask all the time, permits available"
	p.X.Scale, p.Y.Scale, p.Y.Tick.Marker, p.Legend.Top = plot.LogScale{}, plot.LogScale{}, ticks{}, true
	p.Add(plotter.NewGrid())
	var callers plot.ConstantTicks
	for i, c := range contenders {
		var points plotter.XYs
		for _, at := range cases {
			for _, f := range all {
				if at.keys == 0 && at.processes == 1 && at.do == waits && f.Case == at.name && f.Contender == c.name {
					points = append(points, plotter.XY{X: float64(at.callers), Y: f.Nanos})
					callers = append(callers, plot.Tick{Value: float64(at.callers), Label: strconv.Itoa(at.callers)})
				}
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width, dots.Shape, dots.Color = plotutil.DarkColors[i], vg.Points(1.5), plotutil.Shape(i), plotutil.DarkColors[i]
		p.Add(line, dots)
		p.Legend.Add(c.name, line)
	}
	p.X.Tick.Marker, p.X.Max = callers, 50_000 // room for the names
	return p.Save(9*vg.Inch, 5*vg.Inch, path)
}

package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"time"
)

// leases are those that the chart has a line for, with their colours, which differ for
// colour-blind readers and, by their dashes, in a grey print.
var leases = []struct {
	lease         time.Duration
	color, dashes string
}{
	{0, "#d53e00", "none"},
	{100 * time.Millisecond, "#569fd6", "7 3"},
	{time.Second, "#1b2631", "2 3"},
}

// In the units of the picture.
const (
	chartWidth, chartHeight          = 900, 460
	chartLeft, chartRight            = 76, 48
	chartTop, chartBottom            = 96, 60
	chartSteps                       = 200
	chartDecadesBelow, chartDecades  = 1, 4 // of the plan's rate, and in all
	textColor, mutedColor, gridColor = "#1b2631", "#5b6773", "#e3e7eb"
)

type point struct{ x, y float64 }

// drawChart writes the cores against the rate, for some leases, as SVG. Nothing waits
// in it: where numbers wait, there are no permits to lease.
func drawChart(path string, w workload, t terms, c calibration) error {
	w.Waiting = 0
	low := math.Pow(10, math.Floor(math.Log10(w.Rate))-chartDecadesBelow)
	high := min(low*math.Pow(10, chartDecades), mostRate)
	var curves [][]point
	least, most := t.Load, t.Load
	for _, l := range leases {
		var curve []point
		for i := range chartSteps + 1 {
			at := w
			at.Lease = l.lease
			at.Rate = low * math.Pow(high/low, float64(i)/chartSteps)
			cores := coresOf(at, c)
			least, most = min(least, cores), max(most, cores)
			curve = append(curve, point{at.Rate, cores})
		}
		curves = append(curves, curve)
	}
	s := axes{low, high, math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))}
	if err := os.WriteFile(path, s.draw(w, t, curves), 0o644); err != nil {
		return fmt.Errorf("-chart: %w", err)
	}
	return nil
}

// axes are logarithmic.
type axes struct{ left, right, bottom, top float64 }

func (a axes) x(v float64) float64 {
	return chartLeft + (chartWidth-chartLeft-chartRight)*math.Log(v/a.left)/math.Log(a.right/a.left)
}

func (a axes) y(v float64) float64 {
	return chartHeight - chartBottom - (chartHeight-chartTop-chartBottom)*math.Log(v/a.bottom)/math.Log(a.top/a.bottom)
}

func (a axes) draw(w workload, t terms, curves [][]point) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="Liberation Sans,Arial,sans-serif" font-size="13">`+"\n",
		chartWidth, chartHeight)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	write := func(x, y float64, anchor, style, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(text))
	}
	stroke := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	muted := `fill="` + mutedColor + `"`
	write(24, 34, "start", `font-size="19" font-weight="bold" fill="`+textColor+`"`,
		fmt.Sprintf("Redis cores: %s, %s, %s", count(w.Processes, "process", "processes"), count(w.Limits, "limit", "limits"), count(w.Names, "name", "names")))

	for v := a.left; v <= a.right*1.001; v *= 10 {
		write(a.x(v), chartHeight-chartBottom+22, "middle", muted, power(v))
		stroke(a.x(v), a.y(a.bottom), a.x(v), a.y(a.top), `stroke="`+gridColor+`"`)
	}
	for v := a.bottom; v <= a.top*1.001; v *= 10 {
		write(chartLeft-10, a.y(v)+4, "end", muted, power(v))
		stroke(a.x(a.left), a.y(v), a.x(a.right), a.y(v), `stroke="`+gridColor+`"`)
	}
	write((chartLeft+chartWidth-chartRight)/2, chartHeight-14, "middle", muted, "calls per second of the fleet; nothing waits")
	write(0, 0, "middle", muted+fmt.Sprintf(` transform="translate(20 %d) rotate(-90)"`, (chartTop+chartHeight-chartBottom)/2), "cores")

	names := float64(w.Names)
	if allowed := t.Load * names; allowed <= a.top {
		stroke(a.x(a.left), a.y(allowed), a.x(a.right), a.y(allowed), `stroke="`+mutedColor+`" stroke-dasharray="10 4"`)
		write(a.x(a.left)+8, a.y(allowed)-6, "start", muted, fmt.Sprintf("-load %.2g × %s", t.Load, count(w.Names, "name", "names")))
	}
	x := 24.
	for i, l := range leases {
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"`, l.color, l.dashes)
		stroke(x, 62, x+34, 62, style)
		text := "no lease"
		if l.lease > 0 {
			text = "lease " + l.lease.String()
		}
		write(x+42, 66, "start", `fill="`+textColor+`"`, text)
		x += 160
		fmt.Fprintf(&b, `<polyline %s points="`, style)
		for _, p := range curves[i] {
			fmt.Fprintf(&b, "%.1f,%.1f ", a.x(p.x), a.y(p.y))
		}
		fmt.Fprintln(&b, `"/>`)
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// power prints a power of ten.
func power(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.*f", int(math.Round(-math.Log10(v))), v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

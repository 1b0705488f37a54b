package cost

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// table prints a row per case and contender, and when and where it was measured.
func table(w io.Writer, all []Figure, busy bool) error {
	beside := ""
	if busy {
		beside = ", beside a busy process per processor"
	}
	fmt.Fprintf(w, "%s, %d processors%s\n", time.Now().Format(time.DateOnly), runtime.NumCPU(), beside)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\tcontender\ttime per call\tas fast as redis_rate\tcommands per call\tµs of scripts per call\tof redis_rate's\tlapsed\tallocations\tbytes\t")
	for _, f := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f ×\t%.4g\t%.3g\t%.2f ×\t%.2f %%\t%.3g\t%.0f\t\n",
			f.Case, f.Contender, short(f.Nanos), f.Ratio, f.Commands, f.RedisMicros, f.RedisRatio, f.Lapsed, f.Allocs, f.Bytes)
	}
	return t.Flush()
}

func short(nanos float64) string {
	d := time.Duration(nanos)
	switch {
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d >= time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	default:
		return d.String()
	}
}

// The picture is a line per contender: time per call against callers, both axes logarithmic.
const (
	width, height          = 760, 420
	left, right, top, foot = 70, 190, 50, 50
)

var colors = map[string]string{"fleetpace": "#d53e00", "fleetpace, lease": "#e69f00", base: "#0072b2", "redis_rate, full duplex": "#56b4e9"}

// drawn reports whether the picture shows the case.
func (c testcase) drawn() bool { return c.keys == 0 && c.processes == 1 && c.do == waits }

// curve is the line of a contender.
type curve struct {
	name   string
	points [][2]float64 // callers, nanoseconds
}

func curves(all []Figure) (lines []curve) {
	for _, c := range contenders {
		line := curve{name: c.name}
		for _, at := range cases {
			for _, f := range all {
				if f.Case == at.name && f.Contender == c.name && at.drawn() {
					line.points = append(line.points, [2]float64{float64(at.callers), f.Nanos})
				}
			}
		}
		if len(line.points) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

func picture(all []Figure) []byte {
	lines := curves(all)
	low, high := math.Inf(1), 0.0
	for _, line := range lines {
		for _, p := range line.points {
			low, high = min(low, p[1]), max(high, p[1])
		}
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	x := func(callers float64) float64 { return left + math.Log2(callers)/12*(width-left-right) }
	y := func(nanos float64) float64 {
		return height - foot - (math.Log10(nanos)-low)/max(1, high-low)*(height-top-foot)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Arial, Liberation Sans, sans-serif" font-size="13" fill="#5b6773">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="16" y="26" font-size="16" font-weight="bold" fill="#1b2631">What a call costs: time per call, all callers of a process together</text>
`, width, height)
	for e := low; e <= high; e++ {
		at := y(math.Pow(10, e))
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e7eb"/><text x="%d" y="%.1f" text-anchor="end">%v</text>`+"\n",
			left, width-right, at, at, left-8, at+4, time.Duration(math.Pow(10, e)))
	}
	for _, c := range cases {
		if c.drawn() {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(float64(c.callers)), height-foot+20, c.callers)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">callers that ask all the time, permits available</text>`+"\n", (left+width-right)/2, height-10)
	ends := heights(lines, y)
	for i, line := range lines {
		color, dash := colors[line.name], ""
		if color == "" {
			color, dash = "#5b6773", ` stroke-dasharray="6 4"`
		}
		var path []string
		for _, p := range line.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p[0]), y(p[1])))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, x(p[0]), y(p[1]), color)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/><text x="%d" y="%.1f" fill="%s">%s</text>`+"\n",
			strings.Join(path, " "), color, dash, width-right+10, ends[i]+4, color, line.name)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// heights are where the names stand: at the ends of their lines, but apart from each other.
func heights(lines []curve, y func(float64) float64) []float64 {
	const apart = 16
	at := make([]float64, len(lines))
	for i, line := range lines {
		at[i] = y(line.points[len(line.points)-1][1])
	}
	for range 100 { // two that are too close give way by half each
		for i := range at {
			for j := range at {
				if gap := at[j] - at[i]; i != j && math.Abs(gap) < apart && (gap > 0 || gap == 0 && i < j) {
					at[i], at[j] = at[i]-(apart-gap)/2, at[j]+(apart-gap)/2
				}
			}
		}
	}
	return at
}

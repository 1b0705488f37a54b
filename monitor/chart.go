package monitor

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// The server draws all charts, so that they are there without JavaScript. A path is in a space of `history` units
// by 100, which the page stretches. Nothing is drawn for spans without a reading.

// plot is one curve of a chart, with what it is measured against.
type plot struct {
	values []moment
	first  int64 // the span at the left edge
	top    float64
	value  func(*moment) float64
}

func newPlot(values []moment, now time.Time, value func(*moment) float64, also func(*moment) float64) *plot {
	p := &plot{values: values, first: spanOf(now) - history + 1, top: 1e-9, value: value}
	for i := range values {
		p.top = max(p.top, value(&values[i]), also(&values[i]))
	}
	p.top *= 1.08
	return p
}

func (p *plot) x(m *moment) int64 { return m.at - p.first }

func (p *plot) y(v float64) string { return fmt.Sprintf("%.1f", 100-v/p.top*100) }

// path is the curve. If it is closed, it is the area under the curve.
func (p *plot) path(value func(*moment) float64, closed bool) string {
	var b strings.Builder
	from := int64(-1)
	end := func(to int64) {
		if closed && from >= 0 {
			fmt.Fprintf(&b, "L%d 100L%d 100Z", to, from)
		}
		from = -1
	}
	for i := range p.values {
		m := &p.values[i]
		x := p.x(m)
		if x < 0 {
			continue
		}
		if from >= 0 && m.at != p.values[i-1].at+1 {
			end(p.x(&p.values[i-1]) + 1)
		}
		verb := "L"
		if from < 0 {
			from, verb = x, "M"
		}
		fmt.Fprintf(&b, "%s%d %s", verb, x, p.y(value(m)))
		if i == len(p.values)-1 || p.values[i+1].at != m.at+1 { // a span is drawn to its end
			fmt.Fprintf(&b, "L%d %s", x+1, p.y(value(m)))
		}
	}
	if n := len(p.values); n > 0 {
		end(p.x(&p.values[n-1]) + 1)
	}
	return b.String()
}

// bands are the spans in which the limit was paused.
func (p *plot) bands() string {
	var b strings.Builder
	for i := 0; i < len(p.values); i++ {
		if !p.values[i].paused || p.x(&p.values[i]) < 0 {
			continue
		}
		from := p.x(&p.values[i])
		for i+1 < len(p.values) && p.values[i+1].paused && p.values[i+1].at == p.values[i].at+1 {
			i++
		}
		fmt.Fprintf(&b, `<rect class="band" x="%d" y="0" width="%d" height="100"/>`, from, p.x(&p.values[i])+1-from)
	}
	return b.String()
}

func used(m *moment) float64    { return m.used }
func of(m *moment) float64      { return m.of }
func waiting(m *moment) float64 { return m.waiting }

// spark is a small chart of what a limit used in the last hour, against what it allows.
func spark(values []moment, unit string, now time.Time) template.HTML {
	p := newPlot(values, now, used, of)
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers, and texts that are escaped
		`<svg class="spark" viewBox="0 0 %d 100" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[2]s</title>%s<path class="area" d="%s"/><path class="line-calls" d="%s"/><path class="line-limit" d="%s"/></svg>`,
		history, template.HTMLEscapeString(inWords(values, unit)), p.bands(), p.path(used, true), p.path(used, false), p.path(of, false)))
}

// inWords says what a chart shows.
func inWords(values []moment, unit string) string {
	if len(values) == 0 {
		return "no reading yet"
	}
	most, last := 0., values[len(values)-1]
	for i := range values {
		most = max(most, values[i].used)
	}
	return fmt.Sprintf("%s%s used now, of %s; %s at most in the last hour", fleet.Number(last.used), unit, fleet.Number(last.of), fleet.Number(most))
}

// charts are the two charts of a limit, with their scales.
type charts struct {
	Unit        string
	Used        template.HTML
	Waiting     template.HTML
	Top, Most   string // what the upper edges stand for
	Words       string
	From, Until time.Time
	Since       time.Time // the first reading, if it is after From
	Paused      bool
}

func newCharts(values []moment, unit string, now time.Time) *charts {
	c := &charts{Unit: unit, Words: inWords(values, unit), From: now.Add(-history * step), Until: now}
	draw := func(p *plot, area, line string, more string) template.HTML {
		return template.HTML(fmt.Sprintf( //nolint:gosec // numbers
			`<svg class="plot" viewBox="0 0 %d 100" preserveAspectRatio="none" aria-hidden="true">%s<path class="%s" d="%s"/><path class="%s" d="%s"/>%s</svg>`,
			history, p.bands(), area, p.path(p.value, true), line, p.path(p.value, false), more))
	}
	u, w := newPlot(values, now, used, of), newPlot(values, now, waiting, waiting)
	c.Used = draw(u, "area", "line-calls", fmt.Sprintf(`<path class="line-limit" d="%s"/>`, u.path(of, false)))
	c.Waiting = draw(w, "area-wait", "line-wait", "")
	c.Top, c.Most = edge(u.top), edge(w.top)
	if len(values) > 0 {
		if first := time.UnixMilli(values[0].at * step.Milliseconds()); first.After(c.From) {
			c.Since = first
		}
	}
	for i := range values {
		c.Paused = c.Paused || values[i].paused
	}
	return c
}

// edge is a scale's end for people.
func edge(top float64) string {
	if top < 1e-6 {
		return "0"
	}
	if digits := math.Floor(math.Log10(top)); digits < 0 {
		return fmt.Sprintf("%.*f", int(1-digits), top)
	}
	return fleet.Number(math.Round(top))
}

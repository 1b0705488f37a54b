package monitor

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

// The server draws all charts, so that they are there without JavaScript. A path is in a space of one unit for each span
// by 100, which the page stretches. Nothing is drawn for spans without a reading.

// plot is one curve of a chart, with what it is measured against.
type plot struct {
	values []moment
	first  int64 // the span at the left edge
	top    float64
	value  func(*moment) float64
}

func newPlot(values []moment, r *timeRange, now time.Time, value func(*moment) float64, also func(*moment) float64) *plot {
	p := &plot{values: values, first: spanOf(now, r.step) - r.spans + 1, top: 1e-9, value: value}
	for i := range values {
		if p.x(&values[i]) < 0 {
			continue
		}
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

// bands are the spans in which the limit was paused, and, along the upper edge, in which another limit was set.
func (p *plot) bands() string {
	return p.band("band", 100, func(m *moment) bool { return m.paused }) + p.band("band-set", 4, func(m *moment) bool { return m.set })
}

func (p *plot) band(class string, height int, in func(*moment) bool) string {
	var b strings.Builder
	for i := 0; i < len(p.values); i++ {
		if !in(&p.values[i]) || p.x(&p.values[i]) < 0 {
			continue
		}
		from := p.x(&p.values[i])
		for i+1 < len(p.values) && in(&p.values[i+1]) && p.values[i+1].at == p.values[i].at+1 {
			i++
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="0" width="%d" height="%d"/>`, class, from, p.x(&p.values[i])+1-from, height)
	}
	return b.String()
}

// timeRange is a time that a chart may show, up to now.
type timeRange struct {
	Name, Text string // of the address, and for people
	step       time.Duration
	spans      int64
}

// A viewer chooses one of these ranges by ?range=. The second one is the range of the list, and of addresses that name none.
var ranges = []timeRange{{"10m", "10 minutes", step, 30}, {"1h", "hour", step, history}, {"24h", "24 hours", long, history}}

// rangeOf returns the range of a name.
func rangeOf(name string) *timeRange {
	if i := slices.IndexFunc(ranges, func(r timeRange) bool { return r.Name == name }); i >= 0 {
		return &ranges[i]
	}
	return &ranges[1]
}

// of is the history that the range shows.
func (r *timeRange) of(s *snapshot, id string) []moment {
	if r.step == long {
		return s.day[id]
	}
	return s.past[id]
}

func used(m *moment) float64    { return m.used }
func of(m *moment) float64      { return m.of }
func waiting(m *moment) float64 { return m.waiting }

// spark is a small chart of what a limit used in the last hour, against what it allows.
func spark(values []moment, unit string, now time.Time) template.HTML {
	hour := rangeOf("")
	p := newPlot(values, hour, now, used, of)
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers, and texts that are escaped
		`<svg class="spark" viewBox="0 0 %d 100" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[2]s</title>%s<path class="area" d="%s"/><path class="line-calls" d="%s"/><path class="line-limit" d="%s"/></svg>`,
		history, template.HTMLEscapeString(inWords(values, unit, hour, now)), p.bands(), p.path(used, true), p.path(used, false), p.path(of, false)))
}

// inWords says what a chart shows.
func inWords(values []moment, unit string, r *timeRange, now time.Time) string {
	if len(values) == 0 {
		return "no reading yet"
	}
	most, last := 0., values[len(values)-1]
	for i := range values {
		if values[i].at > spanOf(now, r.step)-r.spans {
			most = max(most, values[i].used)
		}
	}
	return fmt.Sprintf("%s%s used now, of %s; %s at most in the last %s", fleet.Number(last.used), unit, fleet.Number(last.of), fleet.Number(most), r.Text)
}

// charts are the two charts of a limit, with their scales.
type charts struct {
	Unit        string
	Used        template.HTML
	Waiting     template.HTML
	Top, Most   string // what the upper edges stand for
	Words       string
	From, Until string
	Since       string // the first reading, if it is after From
	Paused, Set bool
}

func newCharts(values []moment, unit string, r *timeRange, now time.Time) *charts {
	from := now.Add(-time.Duration(r.spans) * r.step)
	c := &charts{Unit: unit, Words: inWords(values, unit, r, now), From: minute(from), Until: minute(now)}
	draw := func(p *plot, area, line string, more string) template.HTML {
		return template.HTML(fmt.Sprintf( //nolint:gosec // numbers
			`<svg class="plot" viewBox="0 0 %d 100" preserveAspectRatio="none" aria-hidden="true">%s<path class="%s" d="%s"/><path class="%s" d="%s"/>%s</svg>`,
			r.spans, p.bands(), area, p.path(p.value, true), line, p.path(p.value, false), more))
	}
	u, w := newPlot(values, r, now, used, of), newPlot(values, r, now, waiting, waiting)
	c.Used = draw(u, "area", "line-calls", fmt.Sprintf(`<path class="line-limit" d="%s"/>`, u.path(of, false)))
	c.Waiting = draw(w, "area-wait", "line-wait", "")
	c.Top, c.Most = edge(u.top), edge(w.top)
	if len(values) > 0 {
		if first := time.UnixMilli(values[0].at * r.step.Milliseconds()); first.After(from) {
			c.Since = minute(first)
		}
	}
	for i := range values {
		if u.x(&values[i]) >= 0 {
			c.Paused, c.Set = c.Paused || values[i].paused, c.Set || values[i].set
		}
	}
	return c
}

func minute(t time.Time) string { return t.UTC().Format("15:04") }

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

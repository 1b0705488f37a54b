package chart

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"time"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Blue and vermilion differ for colour-blind readers and in a grey print.
var (
	acceptedColor = color.NRGBA{R: 0x56, G: 0x9f, B: 0xd6, A: 0xff}
	refusedColor  = color.NRGBA{R: 0xd5, G: 0x3e, B: 0x00, A: 0xff}
	limitColor    = color.NRGBA{R: 0x1b, G: 0x26, B: 0x31, A: 0xff}
	textColor     = color.NRGBA{R: 0x1b, G: 0x26, B: 0x31, A: 0xff}
	mutedColor    = color.NRGBA{R: 0x5b, G: 0x67, B: 0x73, A: 0xff}
	gridColor     = color.NRGBA{R: 0xe3, G: 0xe7, B: 0xeb, A: 0xff}
)

var limitStyle = draw.LineStyle{
	Color:  limitColor,
	Width:  vg.Points(1.4),
	Dashes: []vg.Length{vg.Points(5), vg.Points(3)},
}

const margin = 0.25 * vg.Inch

// drawRequests draws title, legend and plot, from top to bottom.
func drawRequests(c draw.Canvas, title string, b bins, perSecond float64) {
	limit := perSecond * b.bin.Seconds()

	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)

	titleStyle := sans(15, textColor)
	titleStyle.Font.Weight = xfont.WeightBold
	c.FillText(titleStyle, vg.Point{X: c.Min.X, Y: c.Max.Y - 15}, title)

	accepted, refused := b.totals()
	x := c.Min.X
	legendY := c.Max.Y - 38
	for _, entry := range []struct {
		text string
		icon func(r vg.Rectangle)
	}{
		{fmt.Sprintf("accepted: %d", accepted), func(r vg.Rectangle) { fill(c, r, acceptedColor) }},
		{fmt.Sprintf("refused: %d", refused), func(r vg.Rectangle) { fill(c, r, refusedColor) }},
		{fmt.Sprintf("limit: %s per second = %s per %s", number(perSecond), number(limit), duration(b.bin)), func(r vg.Rectangle) {
			y := (r.Min.Y + r.Max.Y) / 2
			c.StrokeLine2(limitStyle, r.Min.X, y, r.Max.X, y)
		}},
	} {
		icon := vg.Rectangle{Min: vg.Point{X: x, Y: legendY}, Max: vg.Point{X: x + 18, Y: legendY + 9}}
		entry.icon(icon)
		style := sans(11, textColor)
		c.FillText(style, vg.Point{X: icon.Max.X + 6, Y: legendY}, entry.text)
		x = icon.Max.X + 6 + style.Width(entry.text) + 24
	}

	requestsPlot(b, limit).Draw(draw.Crop(c, 0, 0, 0, -52))
}

func requestsPlot(b bins, limit float64) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle = withAlign(sans(11, mutedColor), axis.Label.TextStyle)
		axis.Label.Padding = vg.Points(6)
		axis.Tick.Label = withAlign(sans(11, mutedColor), axis.Tick.Label)
		axis.Tick.Length = 0
		axis.LineStyle.Width = 0
		axis.Padding = vg.Points(4)
	}
	p.X.Label.Text = "seconds since the first request"
	p.Y.Label.Text = "requests per " + duration(b.bin)

	p.X.Min = b.start.Seconds()
	p.X.Max = (b.start + b.bin*time.Duration(len(b.accepted))).Seconds()
	p.Y.Min = 0
	p.Y.Max = max(limit, float64(b.tallest())) * 1.12 // so that the limit is not the upper edge
	p.X.Tick.Marker = roundTicks{most: 14, least: 0}
	p.Y.Tick.Marker = roundTicks{most: 8, least: 1}

	p.Add(grid{}, bars{b}, limitLine(limit))
	return p
}

// grid draws one faint line per labelled tick of the Y axis, and the base line stronger.
type grid struct{}

func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	_, ty := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		style := draw.LineStyle{Color: gridColor, Width: vg.Points(0.8)}
		if tick.Value == 0 {
			style.Color = mutedColor
		}
		c.StrokeLine2(style, c.Min.X, ty(tick.Value), c.Max.X, ty(tick.Value))
	}
}

// bars are drawn in data coordinates, so that they touch their bin's borders
// whatever their number.
type bars struct{ bins }

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for i := range b.accepted {
		from := (b.start + b.bin*time.Duration(i)).Seconds()
		left, right := tx(from), tx(from+b.bin.Seconds())
		gap := (right - left) * 0.12
		accepted, all := float64(b.accepted[i]), float64(b.accepted[i]+b.refused[i])
		rect := func(low, high float64) vg.Rectangle {
			return vg.Rectangle{
				Min: vg.Point{X: left + gap/2, Y: ty(low)},
				Max: vg.Point{X: right - gap/2, Y: ty(high)},
			}
		}
		if accepted > 0 {
			fill(c, rect(0, accepted), acceptedColor)
		}
		if all > accepted {
			fill(c, rect(accepted, all), refusedColor)
		}
	}
}

// limitLine draws the number of requests per bin that the limit allows.
type limitLine float64

func (l limitLine) Plot(c draw.Canvas, p *plot.Plot) {
	_, ty := p.Transforms(&c)
	c.StrokeLine2(limitStyle, c.Min.X, ty(float64(l)), c.Max.X, ty(float64(l)))
}

// roundTicks puts ticks at multiples of 1, 2 or 5 times a power of ten. There are at most `most` of them,
// and they are not closer than `least`.
type roundTicks struct {
	most  int
	least float64
}

func (t roundTicks) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(t.most))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if step*factor >= t.least && (high-low)/(step*factor) <= float64(t.most) {
			step *= factor
			break
		}
	}
	step = max(step, t.least)
	var ticks []plot.Tick
	// Adding 0 turns a -0 into 0.
	for i := math.Ceil(low/step) + 0; i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return ticks
}

func fill(c draw.Canvas, r vg.Rectangle, clr color.Color) {
	c.SetColor(clr)
	c.Fill(r.Path())
}

func sans(points vg.Length, clr color.Color) text.Style {
	return text.Style{
		Color:   clr,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, points),
		Handler: plot.DefaultTextHandler,
	}
}

// withAlign returns style with the alignment of the plot's own style.
func withAlign(style, own text.Style) text.Style {
	style.Rotation, style.XAlign, style.YAlign = own.Rotation, own.XAlign, own.YAlign
	return style
}

// number prints at most four significant digits, without an exponent.
func number(v float64) string {
	if math.Abs(v) < 1e3 {
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return number(float64(d)/float64(time.Microsecond)) + " µs"
	case d < time.Second:
		return number(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Minute:
		return number(d.Seconds()) + " s"
	default:
		return number(d.Minutes()) + " min"
	}
}

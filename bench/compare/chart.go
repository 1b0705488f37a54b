package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	chartWidth, chartHeight = 10 * vg.Inch, 6 * vg.Inch
	chartMargin             = 0.25 * vg.Inch
	chartDots               = 144 // per inch of a PNG
)

var (
	inkColor   = color.NRGBA{R: 0x1b, G: 0x26, B: 0x31, A: 0xff}
	mutedColor = color.NRGBA{R: 0x5b, G: 0x67, B: 0x73, A: 0xff}
	gridColor  = color.NRGBA{R: 0xe3, G: 0xe7, B: 0xeb, A: 0xff}

	// Colours that differ for colour-blind readers, too; the floors are grey.
	lineColors = map[string]color.Color{
		fleetpaceName: color.NRGBA{R: 0xd5, G: 0x3e, B: 0x00, A: 0xff},
		"redis_rate":  color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
		"throttled":   color.NRGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
		"guava":       color.NRGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	}
)

// curve is a contender's cost by number of goroutines.
type curve struct {
	name   string
	points plotter.XYs
}

// curvesOf puts together what was measured of the cases in the picture.
func curvesOf(records []*record) []curve {
	var curves []curve
	for _, name := range everyone {
		c := curve{name: name}
		for _, at := range charted {
			for _, r := range records {
				if ns, ok := r.get(nsPerOp); ok && r.Case == at.name && r.Contender == name {
					c.points = append(c.points, plotter.XY{X: at.goroutines, Y: ns.median})
				}
			}
		}
		if len(c.points) > 0 {
			curves = append(curves, c)
		}
	}
	return curves
}

// drawCosts draws a line per contender, as SVG or PNG by the path's ending.
func drawCosts(path string, records []*record) error {
	curves := curvesOf(records)
	if len(curves) == 0 {
		return errors.New("there is nothing to draw: no case with goroutines was measured")
	}
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	} = vgsvg.New(chartWidth, chartHeight)
	if strings.EqualFold(filepath.Ext(path), ".png") {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(chartDots))}
	}
	drawCurves(draw.New(canvas), curves)
	// In memory first, so that a failure leaves no half a picture.
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	// The font is rare elsewhere than on Linux; Arial has the same widths.
	data := bytes.ReplaceAll(picture.Bytes(),
		[]byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;"))
	return os.WriteFile(path, data, 0o644)
}

func drawCurves(c draw.Canvas, curves []curve) {
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, chartMargin, -chartMargin, chartMargin, -chartMargin)
	title := inSans(15, inkColor)
	title.Font.Weight = xfont.WeightBold
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y - 15}, "What a reservation costs: time per call, all goroutines of a process together")
	body := draw.Crop(c, 0, -1.1*vg.Inch, 0, -34) // the names stand at the right

	p := plot.New()
	p.BackgroundColor = nil
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Label.Text = "goroutines that ask all the time, permits available"
	p.Y.Label.Text = "time per reservation"
	low, high := bounds(curves)
	p.X.Min, p.X.Max = 1, charted[len(charted)-1].goroutines
	p.Y.Min, p.Y.Max = low, high
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(goroutineTicks), plot.TickerFunc(costTicks)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		for _, style := range []*text.Style{&axis.Label.TextStyle, &axis.Tick.Label} {
			own := *style
			*style = inSans(11, mutedColor)
			style.Rotation, style.XAlign, style.YAlign = own.Rotation, own.XAlign, own.YAlign
		}
		axis.Label.Padding = vg.Points(6)
		axis.Tick.Length, axis.LineStyle.Width, axis.Padding = 0, 0, vg.Points(6)
	}
	p.Add(costGrid{})
	for _, one := range curves {
		p.Add(one)
	}
	p.Add(names(curves))
	p.Draw(body)
}

// bounds are the powers of ten around all costs.
func bounds(curves []curve) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, c := range curves {
		for _, at := range c.points {
			low, high = min(low, at.Y), max(high, at.Y)
		}
	}
	low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if high <= low {
		high = 10 * low
	}
	return low, high
}

func goroutineTicks(_, _ float64) []plot.Tick {
	var ticks []plot.Tick
	for _, at := range charted {
		ticks = append(ticks, plot.Tick{Value: at.goroutines, Label: strconv.Itoa(int(at.goroutines))})
	}
	return ticks
}

func costTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	units := []string{"ns", "µs", "ms", "s"}
	for exponent := int(math.Round(math.Log10(low))); exponent <= int(math.Round(math.Log10(high))); exponent++ {
		unit := min(max(exponent, 0)/3, len(units)-1)
		label := strconv.FormatFloat(math.Pow10(exponent-3*unit), 'f', -1, 64) + " " + units[unit]
		ticks = append(ticks, plot.Tick{Value: math.Pow10(exponent), Label: label})
	}
	return ticks
}

// costGrid is a faint line per power of ten.
type costGrid struct{}

func (costGrid) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, tick := range costTicks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: gridColor, Width: vg.Points(0.8)}, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
	}
}

func (c curve) color() color.Color {
	if clr, ok := lineColors[c.name]; ok {
		return clr
	}
	return mutedColor
}

// Plot draws the line and a dot per measurement; floors are dashed.
func (c curve) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	style := draw.LineStyle{Color: c.color(), Width: vg.Points(1.6)}
	switch {
	case c.name == fleetpaceName:
		style.Width = vg.Points(3)
	case lineColors[c.name] == nil:
		style.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	var points []vg.Point
	for _, at := range c.points {
		points = append(points, vg.Point{X: x(at.X), Y: y(at.Y)})
	}
	canvas.StrokeLines(style, points)
	for _, at := range points {
		canvas.DrawGlyph(draw.GlyphStyle{Color: c.color(), Radius: vg.Points(3), Shape: draw.CircleGlyph{}}, at)
	}
}

// names stand behind the ends of the lines, apart from each other.
type names []curve

func (n names) Plot(c draw.Canvas, p *plot.Plot) {
	const apart = 14
	x, y := p.Transforms(&c)
	var ends []vg.Length
	for _, one := range n {
		ends = append(ends, y(one.points[len(one.points)-1].Y))
	}
	for i, at := range spaced(ends, apart) {
		last := n[i].points[len(n[i].points)-1]
		c.FillText(inSans(11, n[i].color()), vg.Point{X: x(last.X) + 9, Y: at - 4}, n[i].name)
	}
}

// spaced moves heights until they are apart, in their order: neighbours that are too
// close give way by half each, which settles after a few rounds.
func spaced(heights []vg.Length, apart vg.Length) []vg.Length {
	order := make([]int, len(heights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(heights[a], heights[b]) })
	moved := slices.Clone(heights)
	for range 100 {
		for i := 1; i < len(order); i++ {
			below, above := &moved[order[i-1]], &moved[order[i]]
			if short := apart - (*above - *below); short > 0 {
				*below, *above = *below-short/2, *above+short/2
			}
		}
	}
	return moved
}

func inSans(points vg.Length, clr color.Color) text.Style {
	return text.Style{
		Color:   clr,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, points),
		Handler: plot.DefaultTextHandler,
	}
}

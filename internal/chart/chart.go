// Package chart draws the requests that a provider received over time, against the limit. The pictures go
// into the summaries of examples and benchmarks.
package chart

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fleetpace/fleetpace/internal/provider"
)

const (
	width, height = 10 * vg.Inch, 4.25 * vg.Inch
	dotsPerInch   = 144 // of a PNG
)

// Requests writes a picture of requests per bin against the limit to path, as SVG or PNG by its extension.
// Bars show accepted calls, with refused calls stacked on top in another colour. A line is drawn at
// perSecond*bin. A call of N permits counts N times. If there are more bins than the picture can show side
// by side, the bin is widened; the axis names the width.
//
// It is an error if there are no calls.
func Requests(path, title string, calls []provider.Call, bin time.Duration, perSecond float64) error {
	if len(calls) == 0 {
		return fmt.Errorf("chart: %s: no calls to draw", path)
	}
	if bin <= 0 {
		return fmt.Errorf("chart: %s: bin %v: want a positive duration", path, bin)
	}
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		return fmt.Errorf("chart: %s: perSecond %v: want a positive, finite number", path, perSecond)
	}
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".svg":
		canvas = vgsvg.New(width, height)
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	default:
		return fmt.Errorf("chart: %s: extension %q: want .svg or .png", path, ext)
	}
	drawRequests(draw.New(canvas), title, count(calls, bin, perSecond), perSecond)

	// The picture is made in memory first, so that a failure leaves no half of a file.
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return fmt.Errorf("chart: encode %s: %w", path, err)
	}
	// An SVG names its font and does not contain it. That font is rare outside Linux; Arial has the same
	// widths.
	data := bytes.ReplaceAll(picture.Bytes(),
		[]byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,sans-serif;"))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}

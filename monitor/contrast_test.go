package monitor

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Text has a contrast of at least 4.5 to what is behind it, and lines that carry meaning at least 3, in both schemes
// (WCAG 2.2, 1.4.3 and 1.4.11). The colours are those of page.css.
func TestContrast(t *testing.T) {
	css, err := static.ReadFile("static/page.css")
	require.NoError(t, err)
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\n *\}`).FindAllStringSubmatch(string(css), -1)
	require.Len(t, schemes, 2, "light and dark")
	for i, scheme := range schemes {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(scheme[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, pair := range []struct {
			of, on string // names, divided by spaces
			least  float64
		}{
			{"ink soft accent stop slow look fine idle", "page card sunk", 4.5},
			{"ink accent", "look-bg", 4.5},
			{"on", "accent stop", 4.5},
			{"edge calls limit wait band stop slow", "card", 3},
			{"calls limit", "calls-bg", 3},
			{"wait", "wait-bg", 3},
			{"accent", "page card sunk", 3}, // the focus
		} {
			for _, of := range strings.Fields(pair.of) {
				for _, on := range strings.Fields(pair.on) {
					require.Contains(t, colours, of)
					require.Contains(t, colours, on)
					if c := contrast(t, colours[of], colours[on]); c < pair.least {
						t.Errorf("scheme %d: %s %s on %s %s has a contrast of %.2f, want %g", i, of, colours[of], on, colours[on], c, pair.least)
					}
				}
			}
		}
	}
}

// contrast is that of WCAG, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	luminance := func(colour string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			require.NoError(t, err)
			if c := float64(n) / 255; c <= 0.04045 {
				sum += weight * c / 12.92
			} else {
				sum += weight * math.Pow((c+0.055)/1.055, 2.4)
			}
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

package main

import "math"

// sample is what something cost with so many items.
type sample struct{ items, cost float64 }

// fit finds the line whose relative errors are least, as small calls matter as much
// as large ones. Noise does not make it negative.
func fit(samples []sample) linear {
	var sw, sx, sy, sxx, sxy float64
	for _, s := range samples {
		weight := 1 / (s.cost * s.cost)
		sw += weight
		sx += weight * s.items
		sy += weight * s.cost
		sxx += weight * s.items * s.items
		sxy += weight * s.items * s.cost
	}
	const least = 1e-3
	l := linear{Call: least}
	if det := sw*sxx - sx*sx; det > 0 {
		l.Each = (sw*sxy - sx*sy) / det
		l.Call = (sy - l.Each*sx) / sw
	}
	if l.Call < least {
		l = linear{Call: least, Each: sxy / sxx}
	}
	return linear{Call: round(l.Call), Each: round(max(l.Each, least))}
}

// through is the line through two samples. Noise does not put it below zero.
func through(a, b sample) linear {
	each := (b.cost - a.cost) / (b.items - a.items)
	return linear{Call: round(max(1, a.cost-each*a.items)), Each: round(each)}
}

// round keeps four digits: more were not measured.
func round(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-3)
	return math.Round(x/unit) * unit
}

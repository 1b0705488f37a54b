package main

import (
	"math"
	"slices"
	"strconv"
)

// spread is a figure over the rounds.
type spread struct{ median, min, max float64 }

func spreadOf(values []float64) spread {
	return spread{median: quantile(values, 0.5), min: slices.Min(values), max: slices.Max(values)}
}

// quantile is the q-th part of the values, between two of them where it falls
// between; the values, at least one, stay as they are.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// significant rounds to as many digits as a measurement can mean.
func significant(v float64) float64 { return significantTo(v, 6) }

func significantTo(v float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return rounded
}

package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span formats seconds for people. 0 is "-".
func Span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// Number formats a number for people, with a digit after the point unless that is 0.
func Number(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") }

// SlotID names the slots of a call, for people who free them.
func SlotID(process string, number int64) string {
	return process + ":" + strconv.FormatInt(number, 10)
}

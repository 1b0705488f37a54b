package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a time for people, of seconds; "-" is none.
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

// Number is a number for people, with a digit behind the point where that is not 0.
func Number(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") }

// SlotID names what a call of a process holds, for people who release it.
func SlotID(process string, number int64) string {
	return process + ":" + strconv.FormatInt(number, 10)
}

package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Span formats seconds for people. 0 is "-".
func Span(length float64) string {
	if d := seconds(length); d > 0 {
		return span(d)
	}
	return "-"
}

// Number formats a number for people, with a digit after the point unless that is 0.
func Number(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") }

// SlotID names the slots of a call, for people who free them.
func SlotID(process string, number int64) string {
	return process + ":" + strconv.FormatInt(number, 10)
}

// corrupt says what is wrong with a key.
func corrupt(err error) string {
	return fmt.Sprintf("A key in Redis is not what it should be: %s.", plain(err.Error()))
}

// plain returns a text in one line, without an end mark, for use within a sentence.
func plain(text string) string {
	return strings.TrimRight(strings.Join(strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " "), ".!")
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// span formats a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func clock(t time.Time) string {
	if time.Until(t).Abs() > 12*time.Hour {
		return t.Format("Mon 2 Jan 15:04:05 MST")
	}
	return t.Format("15:04:05 MST")
}

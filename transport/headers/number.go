package headers

import (
	"strconv"
	"strings"
	"time"
)

// number reads digits with at most one point: no sign, exponent or infinity,
// none of which a provider sends and all of which strconv accepts.
func number(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > longestNumber || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

const longestNumber = 32 // bytes, so that it is finite

// bounded is n units as a duration, cut to Longest.
func bounded(n float64, unit time.Duration) time.Duration {
	if n >= float64(Longest/unit) {
		return Longest
	}
	return time.Duration(n * float64(unit))
}

// until is the time from clock to moment, 0 if that has passed, cut to Longest.
func until(moment, clock time.Time) time.Duration {
	return min(max(moment.Sub(clock), 0), Longest)
}

// word is a name that a provider gave, fit for logs and keys: in small letters,
// and empty if it is long or not plain.
func word(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if len(text) > longestWord {
		return ""
	}
	for _, c := range text {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	return text
}

const longestWord = 64 // bytes

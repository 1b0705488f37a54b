package headers

import (
	"strconv"
	"strings"
	"time"
)

// number reads digits with at most one point. It refuses signs, exponents and infinity, which
// strconv accepts and no provider sends.
func number(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > longestNumber || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

const longestNumber = 32 // bytes, so that it is finite

// bounded returns n units as a duration, at most Longest.
func bounded(n float64, unit time.Duration) time.Duration {
	if n >= float64(Longest/unit) {
		return Longest
	}
	return time.Duration(n * float64(unit))
}

// until returns the time from clock to moment, at least 0 and at most Longest.
func until(moment, clock time.Time) time.Duration {
	return min(max(moment.Sub(clock), 0), Longest)
}

// word returns a provider's name in a form that is fit for logs and keys: in lower case. It returns
// an empty text if the name is too long or not printable ASCII.
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

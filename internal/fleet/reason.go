package fleet

import (
	"strings"
	"time"
	"unicode/utf8"
)

// longestReason is the most that Redis keeps of a reason, in bytes.
const longestReason = 256

// Reason is the reason of a pause or a stop, with who makes it and when. A long reason is cut, so that these are kept.
func Reason(reason, who string, at time.Time) string {
	by := "(by " + who + ", " + at.UTC().Format("2 Jan 15:04 UTC") + ")"
	reason = strings.TrimSpace(reason)
	if most := max(0, longestReason-len(" ")-len(by)); len(reason) > most {
		for most > 0 && !utf8.RuneStart(reason[most]) {
			most--
		}
		reason = reason[:most]
	}
	return strings.TrimSpace(reason + " " + by)
}

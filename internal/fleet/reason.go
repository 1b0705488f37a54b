package fleet

import (
	"strings"
	"unicode/utf8"
)

// longestReason is the most that Redis keeps of a reason, in bytes.
const longestReason = 256

// Reason is the reason of a pause, with the name of the person who makes it. A long reason is cut,
// so that the name is kept.
func Reason(reason, who string) string {
	by := "(by " + who + ")"
	reason = strings.TrimSpace(reason)
	if most := max(0, longestReason-len(" ")-len(by)); len(reason) > most {
		for most > 0 && !utf8.RuneStart(reason[most]) {
			most--
		}
		reason = reason[:most]
	}
	return strings.TrimSpace(reason + " " + by)
}

package emulator

import (
	"encoding/json"
	"strings"
)

// words returns a text of n tokens, of four bytes each.
func words(n int) string { return strings.ToValidUTF8(strings.Repeat("wörd ", n)[:4*n], "?") }

// quote returns a text as JSON.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(quoted)
}

package redistest

import (
	"crypto/rand"
	"strings"
	"testing"
)

// Prefix returns a key prefix that no other test uses, in any process on the same server. It is the
// test's name, which shows where a key comes from, and 128 random bits. It holds only letters,
// digits, '_' and '-', so it neither starts nor ends a hash tag.
func Prefix(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		default:
			return '-'
		}
	}, t.Name())
	const longest = 60 // names of subtests can be whole sentences
	return name[:min(len(name), longest)] + "-" + rand.Text()
}

package redistest

import "testing"

// Missing skips a test because something other than a server is missing, or fails it if
// FLEETPACE_REQUIRE holds "redis". The message says what is missing and how to get it.
func Missing(t testing.TB, message string) {
	t.Helper()
	set, err := readSettings()
	switch {
	case err != nil:
		t.Fatal(err)
	case set.requireRedis:
		t.Fatalf("%s\nThis is a failure because %s asks for it.", message, envRequire)
	default:
		t.Skip(message)
	}
}

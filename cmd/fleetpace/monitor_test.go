package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Without a password, nobody from elsewhere is let in.
func TestMonitorAdmits(t *testing.T) {
	for _, c := range []struct {
		listen, auth string
		open         bool
		wrong        string
	}{
		{"localhost:9466", "", false, ""},
		{"127.0.0.1:0", "", false, ""},
		{"[::1]:9466", "", false, ""},
		{":9466", "", false, "FLEETPACE_MONITOR_AUTH"},
		{"0.0.0.0:9466", "", false, "FLEETPACE_MONITOR_AUTH"},
		{"example.com:9466", "", false, "FLEETPACE_MONITOR_AUTH"},
		{"0.0.0.0:9466", "", true, ""},
		{"0.0.0.0:9466", "ann:secret", false, ""},
		{"0.0.0.0:9466", "ann", false, "user:password"},
		{"0.0.0.0:9466", "ann:", false, "user:password"},
		{"0.0.0.0:9466", ":secret", false, "user:password"},
		{"9466", "", false, "host and a port"},
	} {
		if err := admits(c.listen, c.auth, c.open); c.wrong == "" {
			assert.NoError(t, err, "%+v", c)
		} else {
			assert.ErrorContains(t, err, c.wrong, "%+v", c)
		}
	}
}

func TestMonitorAsks(t *testing.T) {
	page := asking("ann:se:cret", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, c := range []struct {
		user, password string
		want           int
	}{
		{"ann", "se:cret", http.StatusNoContent}, {"ann", "se", http.StatusUnauthorized}, {"bob", "se:cret", http.StatusUnauthorized},
		{"", "", http.StatusUnauthorized}, {"ann", "", http.StatusUnauthorized},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pause", nil)
		if c.user != "" {
			r.SetBasicAuth(c.user, c.password)
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		assert.Equal(t, c.want, w.Code, "%+v", c)
		assert.Equal(t, c.want == http.StatusUnauthorized, w.Header().Get("WWW-Authenticate") != "")
	}
}

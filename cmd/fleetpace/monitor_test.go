package main

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The commands on the page name the Redis and the prefix of the monitor, also if its environment says them.
func TestCommandsOnThePageHaveTheFlags(t *testing.T) {
	server := redistest.Local(t, "--save", "") // of this test alone
	s := newScene(t, server)
	require.NoError(t, s.client.Do(t.Context(), "ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all").Err())
	s.prefix = "my app"
	l := s.limiter("openai", "10/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("openai")
	s.does("pause", "openai", "-y")
	address := strings.TrimPrefix(server.URL(), "redis://")
	t.Setenv("FLEETPACE_REDIS_URL", "redis://ann:secret@"+address+"/0")
	t.Setenv("FLEETPACE_PREFIX", s.prefix)
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- (&app{in: strings.NewReader(""), out: io.Discard, errs: write}).run(ctx, []string{"monitor", "--listen", "127.0.0.1:0"})
		_ = write.Close()
	}()
	text := make([]byte, 1000)
	n, err := read.Read(text)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, read) }()
	at := regexp.MustCompile(`http://\S+/`).FindString(string(text[:n]))
	for path, verb := range map[string]string{"": "resume", "limit?name=openai": "resume", "limit?name=openai&do=set&to=4/s&step=plan": "set"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path, nil)
		require.NoError(t, err)
		w, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		require.NoError(t, w.Body.Close())
		page := html.UnescapeString(string(body))
		require.Regexp(t, "fleetpace "+verb+" openai .*--redis redis://ann:PASSWORD@"+address+"/0 --prefix 'my app'", page)
		require.NotContains(t, page, "secret")
	}
	cancel()
	require.Zero(t, <-done)
	http.DefaultClient.CloseIdleConnections()
}

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

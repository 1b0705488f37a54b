package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/internal/example/web"
)

func TestParseRobots(t *testing.T) {
	for _, c := range []struct {
		name, body         string
		allowed, forbidden []string
		delay              time.Duration
	}{
		{name: "empty", allowed: []string{"/", "/a"}},
		{name: "forbids all", body: "User-agent: *\nDisallow: /", forbidden: []string{"/", "/a"}},
		{name: "allows all", body: "User-agent: *\nDisallow:\n\nUser-agent: bad\nDisallow: /", allowed: []string{"/", "/a"}},
		{
			name: "a section, with an exception", body: "User-agent: *\nDisallow: /private/\nAllow: /private/open/",
			allowed: []string{"/", "/private", "/private/open/x"}, forbidden: []string{"/private/", "/private/x"},
		},
		{
			name: "our own group counts alone", body: "User-agent: *\nDisallow: /\n\nUser-agent: Fleetpace-Crawler\nDisallow: /x\nCrawl-delay: 2",
			allowed: []string{"/", "/a"}, forbidden: []string{"/x", "/x/y"}, delay: 2 * time.Second,
		},
		{
			name: "patterns and queries", body: "User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?print=",
			allowed: []string{"/a.pdf.html", "/a?x=1"}, forbidden: []string{"/a/b.pdf", "/a?print=1"},
		},
		{
			name: "lines that break the parser", body: "\ufeffDisallow: /lost\r\nUser-agent: *\r\nDisallow: /a # why\r\nCrawl-delay: soon\r\nDisallow: /b\r\n",
			allowed: []string{"/lost", "/c"}, forbidden: []string{"/a", "/b"},
		},
		{name: "fraction", body: "User-agent: *\nCrawl-delay: 0.25", allowed: []string{"/"}, delay: 250 * time.Millisecond},
		{name: "for ever", body: "User-agent: *\nCrawl-delay: 1e300", allowed: []string{"/"}, delay: web.MaxCrawlDelay},
		{name: "negative", body: "User-agent: *\nCrawl-delay: -5\nDisallow: /a", allowed: []string{"/"}, forbidden: []string{"/a"}},
		{name: "a web page", body: "<!doctype html>\n<title>Not: found</title>", allowed: []string{"/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := web.ParseRobots(web.RobotsFile{Status: 200, Body: c.body})
			require.NoError(t, err)
			for _, path := range c.allowed {
				assert.True(t, r.Allows(mustURL(t, "http://h"+path)), path)
			}
			for _, path := range c.forbidden {
				assert.False(t, r.Allows(mustURL(t, "http://h"+path)), path)
			}
			assert.Equal(t, c.delay, r.CrawlDelay())
		})
	}
}

func TestMissingRobotsAllowsAllAndUnreachableForbids(t *testing.T) {
	r, err := web.ParseRobots(web.RobotsFile{Status: 404, Body: "User-agent: *\nDisallow: /"})
	require.NoError(t, err)
	assert.True(t, r.Allows(mustURL(t, "http://h/")))

	_, err = web.ParseRobots(web.RobotsFile{Error: "status 503"})
	assert.ErrorContains(t, err, "status 503")
}

// Several processes, each with several visits, ask at the same time: the file
// is fetched once, and nobody goes on before it is known.
func TestRobotsAreFetchedOnceByTheFleet(t *testing.T) {
	client := testRedis(t)
	var fetched atomic.Int32
	fetch := func(_ context.Context, u *url.URL) (web.Answer, error) {
		fetched.Add(1)
		assert.Equal(t, "http://h:1/robots.txt", u.String())
		time.Sleep(50 * time.Millisecond) // so that the others must wait
		return web.Answer{Status: 200, Body: []byte("User-agent: *\nDisallow: /x")}, nil
	}
	var wg sync.WaitGroup
	for range 3 {
		process := &web.Robots{Redis: client, Prefix: keyOf("r", "robots:"), IsFailure: isFailure, Fetch: fetch, Life: t.Context()}
		for range 5 {
			wg.Go(func() {
				r, err := process.For(t.Context(), mustURL(t, "http://h:1/page"))
				if assert.NoError(t, err) {
					assert.False(t, r.Allows(mustURL(t, "http://h:1/x")))
				}
			})
		}
	}
	wg.Wait()
	assert.EqualValues(t, 1, fetched.Load())
}

func TestRobotsFollowsRedirectsAndRemembersFailureShortly(t *testing.T) {
	client := testRedis(t)
	var asked []string
	nowhere := func(*url.URL) bool { return false } // the host itself always is
	r := &web.Robots{Redis: client, Prefix: keyOf("r", "robots:"), IsFailure: isFailure, Life: t.Context(), InScope: nowhere, Fetch: func(_ context.Context, u *url.URL) (web.Answer, error) {
		asked = append(asked, u.String())
		switch u.Path {
		case "/robots.txt":
			return web.Answer{Status: 301, Location: mustURL(t, "http://h/moved")}, nil
		default:
			return web.Answer{Status: 503}, nil
		}
	}}
	for range 2 {
		_, err := r.For(t.Context(), mustURL(t, "http://h/"))
		assert.ErrorContains(t, err, "status 503")
	}
	assert.Equal(t, []string{"http://h/robots.txt", "http://h/moved"}, asked, "the failure was not remembered")
	ttl := client.TTL(t.Context(), keyOf("r", "robots:http://h")).Val()
	assert.LessOrEqual(t, ttl, web.RobotsErrorFor)
	assert.Positive(t, ttl)
}

// Redirects of a robots.txt lead to no host that the crawl may not call, and not round in
// circles. Where they are not followed, nothing is known of what is allowed, so no page is
// fetched, and the report says why.
func TestRedirectsOfRobotsStayInScope(t *testing.T) {
	for name, c := range map[string]struct {
		to      func(home, friend, stranger string) string // of the home's robots.txt
		refused string                                     // why no page is fetched
		home    []string                                   // what was asked of it
		friend  int                                        // how often it was asked
	}{
		"the same host": {
			to:   func(string, string, string) string { return "/rules" },
			home: []string{"/robots.txt", "/rules", "/page"},
		},
		"a host of the crawl": {
			to:   func(_, friend, _ string) string { return friend + "/rules" },
			home: []string{"/robots.txt", "/page"}, friend: 1,
		},
		"a host outside": {
			to:      func(_, _, stranger string) string { return stranger + "/rules" },
			refused: "which is not among the hosts of this crawl: add -hosts 127.0.0.1:",
			home:    []string{"/robots.txt"},
		},
		"a host outside, by way of one inside": {
			to:      func(_, friend, _ string) string { return friend + "/leave" },
			refused: "which is not among the hosts of this crawl: add -hosts 127.0.0.1:",
			home:    []string{"/robots.txt"}, friend: 1,
		},
		"in circles": {
			to:      func(home, _, _ string) string { return home + "/robots.txt" },
			refused: "more than 5 redirects in a row",
			home:    slices.Repeat([]string{"/robots.txt"}, 1+web.MaxHops),
		},
		"no address": {
			to:      func(string, string, string) string { return "gopher://127.0.0.1/" },
			refused: "status 301, without an address to follow",
			home:    []string{"/robots.txt"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls sync.Map // what was asked, by server
			serve := func(name string, redirects map[string]*string) string {
				asked := new([]string)
				calls.Store(name, asked)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					*asked = append(*asked, r.URL.Path) // one after the other
					if to := redirects[r.URL.Path]; to != nil {
						w.Header().Set("Location", *to)
						w.WriteHeader(http.StatusMovedPermanently)
						return
					}
					if r.URL.Path == "/rules" {
						_, _ = io.WriteString(w, "User-agent: *\nDisallow: /secret")
					}
				}))
				t.Cleanup(server.Close)
				return server.URL
			}
			askedOf := func(name string) []string {
				asked, _ := calls.Load(name)
				return *asked.(*[]string)
			}
			stranger := serve("stranger", nil)
			leave := stranger + "/rules"
			friend := serve("friend", map[string]*string{"/leave": &leave})
			var first string
			home := serve("home", map[string]*string{"/robots.txt": &first})
			first = c.to(home, friend, stranger)

			v := newTestVisitor(t, mustURL(t, home).Host, mustURL(t, friend).Host)
			err := v.process(t, home+"/page", 0, 0)
			assert.Equal(t, c.home, askedOf("home"))
			assert.Len(t, askedOf("friend"), c.friend)
			assert.Empty(t, askedOf("stranger"), "nobody may call it")
			if c.refused != "" {
				require.ErrorContains(t, err, home+"/robots.txt: ")
				require.ErrorContains(t, err, c.refused)
				require.True(t, isFailure(err))
				notes := v.told(t)
				require.Contains(t, notes[len(notes)-1].Note, c.refused)
				return
			}
			require.NoError(t, err)
			require.NoError(t, v.process(t, home+"/secret", 0, 0))
			assert.Equal(t, c.home, askedOf("home"), "the rules hold")
		})
	}
}

// A visit that only had no turn says nothing about the file.
func TestRobotsThatHadNoTurnAreAskedForAgain(t *testing.T) {
	client := testRedis(t)
	tries := 0
	r := &web.Robots{Redis: client, Prefix: keyOf("r", "robots:"), IsFailure: isFailure, Life: t.Context(), Fetch: func(context.Context, *url.URL) (web.Answer, error) {
		if tries++; tries == 1 {
			return web.Answer{}, &againError{cause: errors.New("no turn")}
		}
		return web.Answer{Status: 404}, nil
	}}
	_, err := r.For(t.Context(), mustURL(t, "http://h/"))
	require.False(t, isFailure(err), "%v", err)
	_, err = r.For(t.Context(), mustURL(t, "http://h/"))
	require.NoError(t, err)
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}

// testRedis is an embedded Redis of the test's own.
func testRedis(t *testing.T) *redis.Client {
	t.Helper()
	server, err := embedded.Start("")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// What robots.txt asks for counts from the first visit on, and for processes that did not
// read it.
func TestCrawlDelayIsLearnedFromRobots(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "User-agent: *\nCrawl-delay: 0.5\n")
	}))
	defer server.Close()
	host := mustURL(t, server.URL).Host
	v := newTestVisitor(t, host)
	need, err := v.turn(t.Context(), asynq.NewTask(visitTask, []byte(`{"url":"`+server.URL+`/page"}`)))
	require.NoError(t, err)
	require.Len(t, need.Limits.Limits(), 2, "its host's and the crawl's")
	other := newTestTurns(t, v.client, 2000, 2000)
	state, err := other.hosts.For(host).State(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 2, state.Rate, 1e-9)
}

package emulator

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// GitHubConfig sets the limits of a user.
type GitHubConfig struct {
	Hourly int           // requests per hour; default 5000
	Points int           // per minute: a GET costs 1 and another method 5; default 900
	AtOnce int           // requests at a time; default 100
	Takes  time.Duration // how long an accepted request takes
}

// GitHub is the REST API of GitHub. It refuses with 403 and does not say for how long if a secondary limit is broken:
// the points of a minute, or the requests at a time. A call within the next minute doubles the wait, and ten such
// calls ban the user. Make one with [NewGitHub]. It is safe for concurrent use.
type GitHub struct {
	config GitHubConfig

	mu     sync.Mutex
	hour   window
	minute window
	rest   time.Duration // after the last refusal for a secondary limit
	until  time.Time
	report GitHubReport
}

// GitHubReport is what a user's requests have met so far.
type GitHubReport struct {
	Admitted  int
	Primary   int // requests that were refused because the hour's are used up
	Secondary int // requests that were refused for a secondary limit
	TooSoon   int // requests that came before such a refusal was over
	Banned    bool
	Open      int // requests under way
	MostOpen  int
}

// NewGitHub makes a user without requests so far. The error is an [ErrInvalid].
func NewGitHub(config GitHubConfig) (*GitHub, error) {
	for _, of := range []struct {
		name    string
		n       *int
		without int
	}{{"Hourly", &config.Hourly, 5000}, {"Points", &config.Points, 900}, {"AtOnce", &config.AtOnce, 100}} {
		if *of.n < 0 {
			return nil, invalid("GitHubConfig."+of.name, "must be at least 1, or 0 for %d, got %d", of.without, *of.n)
		}
		if *of.n == 0 {
			*of.n = of.without
		}
	}
	if config.Takes < 0 {
		return nil, invalid("GitHubConfig.Takes", "must be at least 0, got %v", config.Takes)
	}
	return &GitHub{
		config: config, hour: window{Limit: Limit{Name: "core"}, most: float64(config.Hourly), length: time.Hour},
		minute: window{Limit: Limit{Name: "points"}, most: float64(config.Points), length: time.Minute},
	}, nil
}

const (
	mostTooSoon = 10          // calls that come too soon until the user is banned
	firstRest   = time.Minute // after a refusal for a secondary limit
)

// Report returns what the requests have met so far.
func (g *GitHub) Report() GitHubReport {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.report
}

// judge admits a request, or returns why not.
func (g *GitHub) judge(now time.Time, points float64) (message string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
	if g.report.Banned {
		return "Your account was suspended."
	}
	if now.Before(g.until) {
		g.report.TooSoon++
		g.report.Banned = g.report.TooSoon >= mostTooSoon
		g.rest *= 2
		g.until = now.Add(g.rest)
		return secondary
	}
	if g.report.Open >= g.config.AtOnce || g.minute.wait(now, points) > 0 {
		g.report.Secondary++
		g.rest, g.until = firstRest, now.Add(firstRest)
		return secondary
	}
	if g.hour.wait(now, 1) > 0 {
		g.report.Primary++
		return "API rate limit exceeded for user ID 1."
	}
	g.minute.take(now, points)
	g.hour.take(now, 1)
	g.report.Admitted++
	g.report.Open++
	g.report.MostOpen = max(g.report.MostOpen, g.report.Open)
	return ""
}

// ServeHTTP serves a request.
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	points, now := 5.0, time.Now()
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		points = 1
	}
	message := g.judge(now, points)
	g.mu.Lock()
	left, resets := g.hour.left(now)
	g.mu.Unlock()
	h := w.Header()
	h.Set("X-Ratelimit-Limit", strconv.Itoa(g.config.Hourly))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(int(left)))
	h.Set("X-Ratelimit-Used", strconv.Itoa(g.config.Hourly-int(left)))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(resets).Unix(), 10))
	h.Set("X-Ratelimit-Resource", "core")
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json; charset=utf-8")
	if message != "" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":` + quote(message) + `,"documentation_url":"https://docs.github.com/"}`))
		return
	}
	sleep(r.Context().Done(), g.config.Takes)
	g.mu.Lock()
	g.report.Open--
	g.mu.Unlock()
	_, _ = w.Write([]byte(`{"login":"emulated"}`))
}

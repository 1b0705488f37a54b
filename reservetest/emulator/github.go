package emulator

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitHubConfig sets the limits of a user.
type GitHubConfig struct {
	Hourly int           // requests per hour; default 5000
	Points int           // per minute: a GET costs 1 and another method 5; default 900
	AtOnce int           // requests at a time; default 100
	Takes  time.Duration // how long an accepted request takes

	Content       int // requests per minute that create content: those of REST but GET and HEAD, and mutations; default 80
	ContentHourly int // default 500
	Graph         int // points of GraphQL per hour: a request to /graphql costs 1; default 5000
	GraphPoints   int // points of GraphQL per minute: a query costs 1 and a mutation 5; default 2000
}

// GitHub is the REST API of GitHub, and its GraphQL API at /graphql, which reports a used-up hour with status 200. It
// refuses with 403 and does not say for how long if a secondary limit is broken: the points of a minute, the content,
// or the requests at a time. A call within the next minute doubles the wait, and ten such
// calls ban the user. Make one with [NewGitHub]. It is safe for concurrent use.
type GitHub struct {
	config GitHubConfig

	mu          sync.Mutex
	core, graph githubLimits
	content     []*window
	rest        time.Duration // after the last refusal for a secondary limit
	until       time.Time
	report      GitHubReport
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
	}{{"Hourly", &config.Hourly, 5000}, {"Points", &config.Points, 900}, {"AtOnce", &config.AtOnce, 100},
		{"Content", &config.Content, 80}, {"ContentHourly", &config.ContentHourly, 500}, {"Graph", &config.Graph, 5000}, {"GraphPoints", &config.GraphPoints, 2000}} {
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
		config: config, core: githubLimitsOf("core", config.Hourly, config.Points), graph: githubLimitsOf("graphql", config.Graph, config.GraphPoints),
		content: []*window{githubWindow("content", config.Content, time.Minute), githubWindow("content", config.ContentHourly, time.Hour)},
	}, nil
}

// githubLimits are an hour and a minute of REST or of GraphQL.
type githubLimits struct{ hour, minute *window }

func githubLimitsOf(name string, hourly, points int) githubLimits {
	return githubLimits{githubWindow(name, hourly, time.Hour), githubWindow(name, points, time.Minute)}
}

func githubWindow(name string, n int, length time.Duration) *window {
	return &window{Limit: Limit{Name: name}, most: float64(n), length: length}
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

const usedUpHour = "API rate limit exceeded for user ID 1."

// judge admits a request, or returns why not.
func (g *GitHub) judge(now time.Time, l githubLimits, points float64, content []*window) (message string) {
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
	full := func(w *window) bool { return w.wait(now, 1) > 0 }
	if g.report.Open >= g.config.AtOnce || l.minute.wait(now, points) > 0 || slices.ContainsFunc(content, full) {
		g.report.Secondary++
		g.rest, g.until = firstRest, now.Add(firstRest)
		return secondary
	}
	if full(l.hour) {
		g.report.Primary++
		return usedUpHour
	}
	l.minute.take(now, points)
	for _, w := range append(content, l.hour) {
		w.take(now, 1)
	}
	g.report.Admitted++
	g.report.Open++
	g.report.MostOpen = max(g.report.MostOpen, g.report.Open)
	return ""
}

// ServeHTTP serves a request.
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostRead))
	if err != nil {
		return // the client has gone
	}
	l, now := g.core, time.Now()
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if r.URL.Path == "/graphql" {
		l = g.graph
		reads = !strings.Contains(string(body), "mutation")
	}
	points, content := 1.0, []*window(nil)
	if !reads {
		points, content = 5, slices.Clone(g.content)
	}
	message := g.judge(now, l, points, content)
	g.mu.Lock()
	left, resets := l.hour.left(now)
	g.mu.Unlock()
	h := w.Header()
	h.Set("X-Ratelimit-Limit", strconv.Itoa(int(l.hour.most)))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(int(left)))
	h.Set("X-Ratelimit-Used", strconv.Itoa(int(l.hour.most-left)))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(resets).Unix(), 10))
	h.Set("X-Ratelimit-Resource", l.hour.Name)
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json; charset=utf-8")
	if message == usedUpHour && l.hour.Name == g.graph.hour.Name {
		_, _ = w.Write([]byte(`{"errors":[{"type":"RATE_LIMITED","message":` + quote(message) + `}]}`))
		return
	}
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

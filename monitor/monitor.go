// Package monitor is a web page that shows how the limits of a fleet stand, and lets people pause,
// resume, refill, set and reset them, and take slots away. Mount it beside other pages:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	page, err := monitor.New(client, monitor.Config{ReadOnly: true, Hosts: []string{"limits.example.com"}})
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/limits/", http.StripPrefix("/limits", page))
//
// It has no login of its own: put it behind the one that you have. Name the hosts by which browsers
// reach it in [Config.Hosts]: requests that name others are refused. Where JavaScript is off, the
// page works, but does not update by itself.
package monitor

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// Config says what a page shows.
type Config struct {
	// Prefix is the Config.Prefix of the limits. Default: reserve.DefaultPrefix.
	Prefix string

	// Flags end each command that the page shows, such as --redis and its value, without a password. Default:
	// --prefix, if the Prefix is not the default.
	Flags []string

	// ReadOnly refuses all changes of limits, with status 403. Default: changes are allowed.
	ReadOnly bool

	// The function Who returns the name of the person who sends a request; changes are recorded
	// under it. Default: the user name of basic authentication, or "web page" without one.
	Who func(*http.Request) string

	// Hosts are the names by which browsers reach the page, without scheme and port, such as
	// limits.example.com. Requests with another host get status 403, except for localhost and
	// addresses such as 10.0.0.7. This stops DNS rebinding: a foreign web page cannot reach this
	// server under another name. "*" allows any name: use it behind a login that foreign pages do
	// not have. Default: no names.
	Hosts []string

	// Logger gets failed reads of Redis. Default slog.Default().
	Logger *slog.Logger
}

// Page is the [http.Handler] of the page. It is safe for concurrent use. It reads Redis every 20 seconds, to
// remember what happened in the last day. While somebody views it, and for two minutes after, it reads Redis once
// a second for all viewers together. The page of a single limit reads Redis once a second for each viewer. Make one
// with [New].
type Page struct {
	config Config
	fleet  *fleet.Reader
	feed   *feed
	pages  *template.Template
	serve  http.Handler
}

//go:embed frame.html page.html limit.html
var files embed.FS

//go:embed static
var static embed.FS

// New returns a Page, which begins to read Redis. Close the Page when it is no longer served. The error is a
// [reserve.ErrInvalid]: the client is nil, or one of Config.Hosts is not a host name.
func New(client redis.UniversalClient, config Config) (*Page, error) {
	if client == nil {
		return nil, fmt.Errorf("monitor: %w client: must not be nil", reserve.ErrInvalid)
	}
	hosts, err := hostsOf(config.Hosts)
	if err != nil {
		return nil, err
	}
	if config.Who == nil {
		config.Who = who
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Flags == nil && config.Prefix != "" && config.Prefix != reserve.DefaultPrefix {
		config.Flags = []string{"--prefix", config.Prefix}
	}
	p := &Page{config: config, fleet: fleet.New(client, config.Prefix)}
	p.fleet.Flags = config.Flags
	p.feed = newFeed(p.fleet, config.Logger)
	if p.pages, err = template.New("").Funcs(functions).ParseFS(files, "*.html"); err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	parts, err := fs.Sub(static, "static")
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.list)
	mux.HandleFunc("GET /limit", p.limit)
	mux.HandleFunc("GET /events", p.events)
	mux.Handle("GET /static/", http.StripPrefix("/static", http.FileServerFS(parts)))
	for name, plan := range actions {
		mux.HandleFunc("POST /"+name, p.change(plan))
	}
	p.serve = ownHosts(hosts, http.NewCrossOriginProtection().Handler(p.guarded(mux)))
	return p, nil
}

// Close stops reading Redis, and ends open pages. The client stays open. The error is always nil.
func (p *Page) Close() error {
	p.feed.close()
	p.fleet.Close()
	return nil
}

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.serve.ServeHTTP(w, r) }

// policy allows a page to load only what this handler serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guarded sets security headers, and refuses changes if the page is read-only.
func (p *Page) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if p.config.ReadOnly && r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this page is for reading only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func who(r *http.Request) string {
	if name, _, ok := r.BasicAuth(); ok && name != "" {
		return name
	}
	return "web page"
}

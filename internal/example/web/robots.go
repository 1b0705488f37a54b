package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/temoto/robotstxt"
	"golang.org/x/sync/singleflight"
)

const (
	RobotsFor       = time.Hour       // how long a robots.txt is valid
	RobotsErrorFor  = 3 * time.Second // how long to wait after a failure before it is fetched again
	robotsFetchTTL  = time.Minute     // after this, a fetch of another process counts as dead
	robotsPoll      = 25 * time.Millisecond
	MaxCrawlDelay   = time.Hour
	maxRobotsLength = 512 << 10 // bytes; the rest is ignored
)

// Rules are the rules of one host's robots.txt for this crawler.
type Rules struct {
	group *robotstxt.Group
}

func (r Rules) Allows(u *url.URL) bool    { return r.group.Test(u.RequestURI()) }
func (r Rules) CrawlDelay() time.Duration { return min(max(0, r.group.CrawlDelay), MaxCrawlDelay) }

// RobotsFile is a host's robots.txt, as the fleet keeps it in Redis.
type RobotsFile struct {
	Status int    `json:"status"`
	Body   string `json:"body,omitempty"`
	Error  string `json:"error,omitempty"` // there was no usable response
}

// Robots knows what each host allows. The fleet fetches each robots.txt once: one process holds the
// key "…:fetching" while it fetches, and the others wait for the result in Redis. Inside a process,
// one call fetches it for all. It is safe for concurrent use.
type Robots struct {
	Redis  redis.UniversalClient
	Prefix string // of the keys in Redis

	// Fetch makes one request, in its turn.
	Fetch func(ctx context.Context, u *url.URL) (Answer, error)
	// IsFailure reports whether an error of Fetch comes from a request that was sent.
	IsFailure func(err error) bool
	// InScope reports whether the run may send requests to the host of u.
	InScope func(u *url.URL) bool
	// Learned is called with the rules of a host before they are used. It may be nil.
	Learned func(ctx context.Context, host string, r Rules) error
	// Life ends when the process stops taking turns. One fetch serves many
	// callers, so it must not end with the first of them.
	Life context.Context

	flights singleflight.Group
	mu      sync.Mutex
	known   map[string]knownRules // by origin; as many as the run has hosts
}

type knownRules struct {
	Rules
	until time.Time
}

// For returns the rules for the host of u. An error means that they are unknown for now, so nothing may
// be fetched from the host.
func (r *Robots) For(ctx context.Context, u *url.URL) (Rules, error) {
	origin := u.Scheme + "://" + u.Host
	r.mu.Lock()
	k, ok := r.known[origin]
	r.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.Rules, nil
	}
	flight := r.flights.DoChan(origin, func() (any, error) {
		file, err := r.load(r.Life, origin)
		if err != nil {
			return Rules{}, err
		}
		parsed, err := ParseRobots(file)
		if err != nil {
			return Rules{}, fmt.Errorf("%s/robots.txt: %w", origin, err)
		}
		if r.Learned != nil {
			if err := r.Learned(r.Life, u.Host, parsed); err != nil {
				return Rules{}, err
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.known == nil {
			r.known = make(map[string]knownRules)
		}
		r.known[origin] = knownRules{parsed, time.Now().Add(RobotsFor)}
		return parsed, nil
	})
	select {
	case <-ctx.Done():
		return Rules{}, ctx.Err()
	case result := <-flight:
		return result.Val.(Rules), result.Err
	}
}

// load returns the file from Redis, or fetches it if no other process does.
func (r *Robots) load(ctx context.Context, origin string) (RobotsFile, error) {
	key := r.Prefix + origin
	for {
		if file, known, err := r.stored(ctx, key); known || err != nil {
			return file, err
		}
		mine, err := r.Redis.SetNX(ctx, key+":fetching", 1, robotsFetchTTL).Result()
		if err != nil {
			return RobotsFile{}, err
		}
		if mine {
			return r.download(ctx, origin, key)
		}
		select {
		case <-ctx.Done():
			return RobotsFile{}, ctx.Err()
		case <-time.After(robotsPoll):
		}
	}
}

func (r *Robots) stored(ctx context.Context, key string) (file RobotsFile, known bool, err error) {
	raw, err := r.Redis.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return file, false, nil
	}
	if err != nil {
		return file, false, err
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return file, false, fmt.Errorf("redis key %s: %w: delete it", key, err)
	}
	return file, true, nil
}

// download fetches the file and stores it. The caller holds the key
// "…:fetching".
func (r *Robots) download(ctx context.Context, origin, key string) (RobotsFile, error) {
	// Let other processes try next, whatever the result. This must also happen if this process is
	// stopping.
	defer r.Redis.Del(context.WithoutCancel(ctx), key+":fetching")
	// Another process may have stored it between our look and our turn.
	if file, known, err := r.stored(ctx, key); known || err != nil {
		return file, err
	}

	u, err := url.Parse(origin + "/robots.txt")
	if err != nil {
		return RobotsFile{}, err
	}
	got, err := r.follow(ctx, u)
	if ctx.Err() != nil {
		return RobotsFile{}, ctx.Err()
	}
	if err != nil && !r.IsFailure(err) {
		return RobotsFile{}, err // no request was sent
	}
	file, ttl := RobotsFile{Status: got.Status, Body: string(got.Body[:min(len(got.Body), maxRobotsLength)])}, RobotsFor
	switch {
	case err != nil:
		file, ttl = RobotsFile{Error: err.Error()}, RobotsErrorFor
	case got.Status == http.StatusTooManyRequests || got.Status >= 500:
		file, ttl = RobotsFile{Error: "status " + strconv.Itoa(got.Status)}, max(RobotsErrorFor, got.RetryAfter)
	}
	raw, err := json.Marshal(file)
	if err != nil {
		return RobotsFile{}, err
	}
	return file, r.Redis.Set(ctx, key, raw, ttl).Err()
}

// follow fetches u and follows its redirects, but only to hosts of this crawl. Otherwise any host
// could make this crawler send requests to others.
func (r *Robots) follow(ctx context.Context, u *url.URL) (Answer, error) {
	for hop := 0; ; hop++ {
		got, err := r.Fetch(ctx, u)
		switch to := got.Location; {
		case err != nil || got.Status < 300 || got.Status > 399:
			return got, err
		case to == nil:
			return Answer{}, fmt.Errorf("status %d, without an address to follow", got.Status)
		case hop == MaxHops:
			return Answer{}, fmt.Errorf("more than %d redirects in a row", MaxHops)
		case to.Host != u.Host && !r.InScope(to):
			return Answer{}, fmt.Errorf("redirects to %s, which is not among the hosts of this crawl: add -hosts %s", to, to.Host)
		default:
			u = to
		}
	}
}

// ParseRobots follows RFC 9309: no file means no restriction, and an unreachable file forbids
// everything for now. A file behind redirects that are not followed counts as unreachable, because
// its rules are unknown.
func ParseRobots(f RobotsFile) (Rules, error) {
	if f.Error != "" {
		return Rules{}, errors.New(f.Error)
	}
	if f.Status < 200 || f.Status > 299 {
		return Rules{group: &robotstxt.Group{}}, nil
	}
	data, err := robotstxt.FromBytes(dropBrokenLines([]byte(f.Body)))
	if err != nil {
		return Rules{}, err
	}
	return Rules{group: data.FindGroup(AgentName)}, nil
}

// dropBrokenLines removes lines that would make the parser reject the whole file: rules before the
// first User-agent, and delays that are not numbers. A delay that is too long for the parser
// becomes the longest one that is obeyed.
func dropBrokenLines(body []byte) []byte {
	var kept [][]byte
	inGroup := false
	for line := range bytes.Lines(body) {
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(string(line), ":")
		value, _, _ = strings.Cut(value, "#")
		switch strings.ToLower(strings.Trim(field, " \t\ufeff")) {
		case "user-agent", "useragent":
			inGroup = true
		case "allow", "disallow":
			if !inGroup {
				continue
			}
		case "crawl-delay", "crawldelay":
			seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if !inGroup || err != nil || seconds < 0 || math.IsNaN(seconds) {
				continue
			}
			if seconds > MaxCrawlDelay.Seconds() {
				line = fmt.Appendf(nil, "Crawl-delay: %d", int(MaxCrawlDelay.Seconds()))
			}
		}
		kept = append(kept, line)
	}
	return bytes.Join(kept, []byte("\n"))
}

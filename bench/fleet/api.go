package fleet

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// The headers of a call to the API.
const (
	taskHeader = "Fleet-Task"
	dueHeader  = "Fleet-Due" // Unix nanoseconds; empty: nobody said when
)

// call is one call as it arrived at the API.
type call struct {
	line, task string
	at         time.Time
	due        time.Time // as the caller says; zero: it does not
	refused    bool
}

// api is the strict API: it judges each line's calls when they arrive.
type api struct {
	url      string
	server   *http.Server
	scenario *scenario

	mu    sync.Mutex
	lines map[string]*provider.Provider
	held  map[string]int // calls that are served, of lines with slots
	calls []call
	done  map[string]bool // tasks whose call was accepted
}

func openAPI(s *scenario) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	a := &api{url: "http://" + listener.Addr().String(), scenario: s, lines: map[string]*provider.Provider{}, held: map[string]int{}, done: map[string]bool{}}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{line: strings.TrimPrefix(r.URL.Path, "/"), task: r.Header.Get(taskHeader)}
	if nanos, err := strconv.ParseInt(r.Header.Get(dueHeader), 10, 64); err == nil {
		c.due = time.Unix(0, nanos)
	}
	name, _ := splitLine(c.line)
	l, err := a.scenario.limit(name)
	if err != nil || c.task == "" {
		http.Error(w, "a call names a limit in its path, and its task", http.StatusBadRequest)
		return
	}
	if !a.accepts(l, &c) {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if l.Slots > 0 { // the call takes time, the same for everybody
		h := fnv.New32a()
		_, _ = h.Write([]byte(c.task))
		time.Sleep(shortest + time.Duration(h.Sum32()%1000)*(longest-shortest)/999)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.held[c.line]--
	}
	w.WriteHeader(http.StatusNoContent)
}

// accepts judges a call, and notes it.
func (a *api) accepts(l limit, c *call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.at = time.Now()
	switch {
	case l.Slots > 0:
		if c.refused = a.held[c.line] >= l.Slots; !c.refused {
			a.held[c.line]++
		}
	default:
		p := a.lines[c.line]
		if p == nil {
			p = provider.New(provider.TokenBucket(l.Rate, l.Burst))
			a.lines[c.line] = p
		}
		accepted, _ := p.JudgeAt(c.at, 1)
		c.refused = !accepted
	}
	a.calls = append(a.calls, *c)
	if !c.refused {
		a.done[c.task] = true
	}
	return !c.refused
}

// noCall is far above what asynq's longest polling interval needs.
const noCall = 20 * time.Second

// wait returns when the window is over: so long after the first call, or when all tasks are done.
// The stall is how long this process, which judges the calls, got no CPU at worst.
func (a *api) wait(ctx context.Context, window time.Duration, show func(done int)) (stall time.Duration, err error) {
	const look = 20 * time.Millisecond
	opened := time.Now()
	for ctx.Err() == nil {
		a.mu.Lock()
		done, first := len(a.done), time.Time{}
		if len(a.calls) > 0 {
			first = a.calls[0].at
		}
		a.mu.Unlock()
		show(done)
		switch {
		case done == len(a.scenario.jobs), !first.IsZero() && time.Since(first) > window:
			return stall, nil
		case first.IsZero() && time.Since(opened) > noCall:
			return stall, fmt.Errorf("no call came within %v", noCall)
		}
		slept := time.Now()
		time.Sleep(look)
		stall = max(stall, time.Since(slept)-look)
	}
	return stall, context.Cause(ctx)
}

// close ends the API, and returns all calls in the order of their arrival.
func (a *api) close() []call {
	_ = a.server.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

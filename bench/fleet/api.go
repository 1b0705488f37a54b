package main

import (
	"context"
	"errors"
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

// call is one call as it arrived at the API.
type call struct {
	line    string
	task    string
	at      time.Time
	due     time.Time // as the caller says
	refused bool
}

// late is how long after its moment the call arrived; 0 when before.
func (c call) late() time.Duration { return max(0, c.at.Sub(c.due)) }

// api is the strict API: it judges each line's calls when they arrive.
type api struct {
	url    string
	server *http.Server
	limits []limit

	mu    sync.Mutex
	lines map[string]*provider.Provider
	held  map[string]int // calls that are served, of lines with slots
	calls []call
	bare  []call          // of the bare callers
	done  map[string]bool // tasks whose call was accepted
}

func openAPI(limits []limit) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	a := &api{
		url:    "http://" + listener.Addr().String(),
		limits: limits,
		lines:  make(map[string]*provider.Provider),
		held:   make(map[string]int),
		done:   make(map[string]bool),
	}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *api) close() { _ = a.server.Close() }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accepted, serve, err := a.judge(r)
	if serve != nil {
		serve()
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case !accepted:
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// judge judges a call. What it returns besides serves the call, if that takes time.
func (a *api) judge(r *http.Request) (accepted bool, serve func(), err error) {
	nanos, err := strconv.ParseInt(r.Header.Get(dueHeader), 10, 64)
	task := r.Header.Get(taskHeader)
	if err = errors.Join(err, r.Context().Err()); err != nil || task == "" {
		return false, nil, fmt.Errorf("a call needs the headers %s and %s", taskHeader, dueHeader)
	}
	c := call{line: strings.TrimPrefix(r.URL.Path, "/"), task: task, due: time.Unix(0, nanos)}

	a.mu.Lock()
	defer a.mu.Unlock()
	if c.line == bareLine {
		c.at = time.Now()
		a.bare = append(a.bare, c)
		return true, nil, nil
	}
	name, _ := splitLine(c.line)
	l, err := limitNamed(a.limits, name)
	if err != nil {
		return false, nil, err
	}
	if l.Slots > 0 {
		c.at = time.Now()
		if accepted = a.held[c.line] < l.Slots; accepted {
			a.held[c.line]++
			serve = func() { a.serve(c) }
		}
	} else {
		accepted = a.accepts(l, &c)
	}
	c.refused = !accepted
	a.calls = append(a.calls, c)
	if accepted {
		a.done[c.task] = true
	}
	return accepted, serve, nil
}

// accepts reports whether a rate allows a call now. The API must be locked.
func (a *api) accepts(l limit, c *call) bool {
	p := a.lines[c.line]
	if p == nil {
		p = provider.New(provider.TokenBucket(l.Rate, l.Burst))
		a.lines[c.line] = p
	}
	c.at = time.Now()
	accepted, _ := p.JudgeAt(c.at, 1)
	return accepted
}

// serve takes as long as the call of a task does, the same for everybody.
func (a *api) serve(c call) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.task))
	time.Sleep(leastCall + time.Duration(h.Sum32()%1000)*(mostCall-leastCall)/999)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[c.line]--
}

// history returns all calls so far: the contender's, and the bare ones.
func (a *api) history() (calls, bare []call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls), slices.Clone(a.bare)
}

// state is when the first call arrived (zero: none did) and how many tasks are
// done.
func (a *api) state() (first time.Time, done int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) > 0 {
		first = a.calls[0].at
	}
	return first, len(a.done)
}

// waitUntilDone returns when the window is over: so long after the first call,
// or when all tasks are done. The stall is how long this process, which judges
// the calls, got no CPU at worst.
func (a *api) waitUntilDone(ctx context.Context, tasks int, window time.Duration, show func(done int)) (stall time.Duration, err error) {
	const look = 20 * time.Millisecond
	opened := time.Now()
	for ctx.Err() == nil {
		first, done := a.state()
		show(done)
		switch {
		case done == tasks:
			return stall, nil
		case first.IsZero() && time.Since(opened) > noCallLimit:
			return stall, fmt.Errorf("no call came within %v", noCallLimit)
		case !first.IsZero() && time.Since(first) > window:
			return stall, nil
		}
		slept := time.Now()
		select {
		case <-time.After(look):
			stall = max(stall, time.Since(slept)-look)
		case <-ctx.Done():
		}
	}
	return stall, context.Cause(ctx)
}

// noCallLimit is far above what asynq's longest polling interval needs.
const noCallLimit = 15 * time.Second

// stallLimit is the longest stall that is not worth a remark: half of the jitter
// that the burst of scenario one bears.
const stallLimit = 25 * time.Millisecond

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// api is the strict API: it judges the calls of each limit when they arrive.
type api struct {
	url    string
	server *http.Server
	judges map[string]*provider.Provider // by limit
}

func openAPI(limits []limit) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	a := &api{url: "http://" + listener.Addr().String(), judges: map[string]*provider.Provider{}}
	for _, l := range limits {
		a.judges[l.Name] = provider.New(provider.TokenBucket(l.Rate, l.Burst))
	}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	judge := a.judges[strings.TrimPrefix(r.URL.Path, "/")]
	if judge == nil {
		http.NotFound(w, r)
		return
	}
	if accepted, _ := judge.Judge(1); !accepted {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// seen returns how many calls were accepted, and when the first call of all arrived.
func (a *api) seen() (accepted int, first time.Time) {
	for _, judge := range a.judges {
		s := judge.Summary()
		accepted += s.Requests - s.Refused
		if first.IsZero() || !s.First.IsZero() && s.First.Before(first) {
			first = s.First
		}
	}
	return accepted, first
}

// noCall is far above what asynq's polling interval needs.
const noCall = 20 * time.Second

// wait returns when the window is over: so long after the first call, or when all tasks are done.
// The stall is how long this process, which judges the calls, got no CPU at worst.
func (a *api) wait(ctx context.Context, window time.Duration, tasks int, show func(done int)) (stall time.Duration, err error) {
	const look = 20 * time.Millisecond
	opened := time.Now()
	for ctx.Err() == nil {
		done, first := a.seen()
		show(done)
		if done >= tasks || !first.IsZero() && time.Since(first) > window {
			return stall, nil
		}
		if first.IsZero() && time.Since(opened) > noCall {
			return stall, fmt.Errorf("no call came within %v", noCall)
		}
		slept := time.Now()
		time.Sleep(look)
		stall = max(stall, time.Since(slept)-look)
	}
	return stall, cmp.Or(context.Cause(ctx), ctx.Err())
}

package example

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// providerBurst is the burst of the site's provider. The crawler's bursts are 3 in all and 2 for a
// host; the difference absorbs the jitter between a turn and the arrival of its request.
const providerBurst = 10

// Site is the site that this program serves on 127.0.0.1, for the demo and for -dir. Each host has
// a port, and a strict provider in front of it.
type Site struct {
	All        *provider.Provider // judges every request by the limit of the crawl
	hosts      []*provider.Provider
	servers    []*http.Server
	Entries    []string // the entry pages
	Pages      int      // how many can be found; -1: unknown
	Violations atomic.Int64
}

// Host is one host of a site.
type Host struct {
	Handler   http.Handler
	PerSecond float64 // its own limit
}

// Listen opens one port of the loopback interface per host. want are the addresses of a continued
// run; without them, it uses free ports.
func Listen(n int, want []string) ([]net.Listener, []string, error) {
	var listeners []net.Listener
	var addrs []string
	for i := range n {
		addr := "127.0.0.1:0"
		if i < len(want) {
			addr = want[i]
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			if len(want) > 0 {
				return nil, nil, fmt.Errorf("this run served its site on %s and needs the same port again: %w: stop the program that uses it, or begin a new run with another -run", addr, err)
			}
			return nil, nil, fmt.Errorf("serve the site: %w", err)
		}
		listeners = append(listeners, l)
		addrs = append(addrs, l.Addr().String())
	}
	return listeners, addrs, nil
}

// Serve starts the hosts, with their providers in front.
func (s *Site) Serve(listeners []net.Listener, specs []Host, qps float64) {
	s.All = provider.New(provider.TokenBucket(qps, providerBurst))
	for i, spec := range specs {
		own := provider.New(provider.TokenBucket(spec.PerSecond, providerBurst))
		server := &http.Server{
			Handler:           s.All.Handler(own.Handler(spec.Handler)),
			ReadHeaderTimeout: 10 * time.Second,
		}
		s.hosts = append(s.hosts, own)
		s.servers = append(s.servers, server)
		go func() {
			if err := server.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				panic(fmt.Sprintf("site on %s: %v", listeners[i].Addr(), err))
			}
		}()
	}
}

// Refused counts the requests that came too early for the limit of the crawl or of their host.
func (s *Site) Refused() int {
	n := s.All.Summary().Refused
	for _, h := range s.hosts {
		n += h.Summary().Refused
	}
	return n
}

func (s *Site) Close() {
	for _, server := range s.servers {
		_ = server.Close()
	}
}

package server

import (
	"context"
	_ "embed"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// A Server is an [http.Handler] that grants turns. It may be mounted beside other handlers, at the
// paths of openapi.yaml. It is safe for concurrent use. Make one with [New].
type Server struct {
	limits   *limits.Set
	config   Config
	tokens   *tokens
	handler  http.Handler
	open     map[string]http.HandlerFunc // for GET, without a token
	ending   context.Context             // ends with Drain
	end      context.CancelFunc
	reported atomic.Int64 // when a failure was last logged, in Unix seconds
	places   places
	hears    map[bodies.API]*transport.Transport
	given    givenTurns

	mu      sync.Mutex
	polls   map[*poll]struct{} // guarded by mu
	waiting fair               // polls by their callers; guarded by mu
}

//go:embed openapi.yaml
var page []byte

// New returns a Server for the limits of a file. The Set stays the caller's: let it watch the file,
// and close it after the server. New sends nothing to Redis. The error is an [ErrInvalid] that
// names the field.
func New(set *limits.Set, config Config) (*Server, error) {
	if set == nil {
		return nil, invalid("set", "must not be nil: make one with limits.Load")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	tokens, err := newTokens(&config)
	if err != nil {
		return nil, err
	}
	s := &Server{limits: set, config: config, tokens: tokens}
	s.ending, s.end = context.WithCancel(context.Background())
	s.places = places{byID: map[string]*place{}, kept: newFair(config.MaxKept)}
	s.given = givenTurns{byID: map[string]*givenTurn{}, most: config.MaxKept}
	s.polls, s.waiting = map[*poll]struct{}{}, newFair(config.MaxWaiting)
	if s.hears, err = newHears(config.Logger); err != nil {
		return nil, err
	}
	s.handler = s.tokens.requires(s.routes())
	s.open = map[string]http.HandlerFunc{
		"/healthz": func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "alive\n") },
		"/readyz":  s.ready,
	}
	return s, nil
}

func (s *Server) routes() http.Handler {
	own := http.NewServeMux()
	for right, handlers := range map[right]map[string]http.HandlerFunc{
		takes: {
			"POST /v1/wait": s.wait, "POST /v1/leave": s.leave, "POST /v1/allow": s.allow,
			"POST /v1/settle": s.settle, "POST /v1/release": s.release, "POST /v1/renew": s.renew,
			"POST /v1/refused": s.refused,
		},
		operates: {
			"POST /v1/resume":       s.resume,
			"PUT /v1/limits/{name}": s.set, "DELETE /v1/limits/{name}": s.reset,
		},
		takes | operates: {"POST /v1/pause": s.pause, "GET /v1/limits": s.list, "GET /v1/limits/{name}": s.show},
	} {
		for path, handler := range handlers {
			own.HandleFunc(path, s.tokens.let(right, handler))
		}
	}
	own.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(page)
	})
	if s.config.Metrics != nil {
		own.HandleFunc("GET /metrics", s.tokens.let(measures, s.config.Metrics.ServeHTTP))
	}
	return own
}

// ServeHTTP serves a request. The response of /v1/wait comes when the call has its turn, or when
// its poll ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The deadline also bounds bodies that are never read, such as of requests without a token.
	// readBody removes it. A server that cannot set one has its own bound.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	if open := s.open[r.URL.Path]; open != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		open(w, r)
		return
	}
	if span := trace.SpanFromContext(r.Context()); span.IsRecording() {
		if name := callerOf(r); name != "" {
			span.SetAttributes(attribute.String("fleetpace.caller", name))
		}
	}
	s.handler.ServeHTTP(w, r)
}

// Probes serves /healthz and /readyz, and nothing else, for a listener of their own without TLS.
func (s *Server) Probes() http.Handler {
	probes := http.NewServeMux()
	for path, handler := range s.open {
		probes.HandleFunc("GET "+path, handler)
	}
	return probes
}

// Drain ends all polls; their callers are to ask again. Calls with ids keep their places, and the
// others get an id. From then on no request waits here: requests for turns get 503. Call Drain
// before the Shutdown of the [http.Server].
func (s *Server) Drain() {
	s.mu.Lock()
	s.end()
	for p := range s.polls {
		p.end(errEnding)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	for _, at := range s.places.idle() { // places between two polls
		s.handOver(ctx, at)
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	switch err := s.config.Ready(r.Context()); {
	case s.ending.Err() != nil:
		text(w, http.StatusServiceUnavailable, "shutting down\n")
	case err != nil:
		s.report(r.Context(), caller{}, err)
		text(w, http.StatusServiceUnavailable, "Redis does not answer\n") // without details: this path needs no token
	default:
		text(w, http.StatusOK, "ready\n")
	}
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may be gone
}

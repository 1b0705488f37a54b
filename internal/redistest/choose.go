package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// New returns a real Redis: FLEETPACE_REDIS_URL, else a container, else a local server. The package
// documentation has the details. Without a Redis it skips the test, or fails it if
// FLEETPACE_REQUIRE says so.
func New(t testing.TB) *Server {
	t.Helper()
	set, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []Kind{KindDocker, KindLocal}
	switch {
	case set.only != "":
		kinds = []Kind{set.only}
	case set.url != "":
		kinds = []Kind{KindURL}
	case set.requireDocker:
		kinds = []Kind{KindDocker}
	}

	var missing []string
	for _, kind := range kinds {
		server, err := sharedServer(kind, set)
		if err == nil {
			return announce(t, server)
		}
		if kind == KindURL {
			t.Fatalf("redistest: no Redis answers at %s: %v\nStart it, or unset the variable.", envURL, err)
		}
		missing = append(missing, err.Error())
		t.Logf("redistest: %v", err)
	}
	giveUp(t, set.requireRedis || set.requireDocker && kinds[0] == KindDocker, missing)
	return nil // not reached
}

// Docker returns a Redis in a container, shared by the tests of the binary. Without a Docker engine
// or an image, it skips the test, or fails it if FLEETPACE_REQUIRE holds "docker".
func Docker(t testing.TB) *Server {
	t.Helper()
	set, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sharedServer(KindDocker, set)
	if err != nil {
		giveUp(t, set.requireDocker, []string{err.Error()})
	}
	return announce(t, server)
}

// Local returns a redis-server (or valkey-server) process of this machine. If neither is in PATH,
// it skips the test, or fails it if FLEETPACE_REQUIRE holds "redis".
//
// Without args, the tests of the binary share the process. With args, the process belongs to this
// test and ends with it. The args are options as on its command line ("--appendonly", "yes") and
// come after the options of this package.
func Local(t testing.TB, args ...string) *Server {
	t.Helper()
	set, err := readSettings()
	if err != nil {
		t.Fatal(err)
	}
	var server *Server
	if len(args) == 0 {
		server, err = sharedServer(KindLocal, set)
	} else {
		server, err = startServer(order{Kind: KindLocal, Args: args})
	}
	if err != nil {
		giveUp(t, set.requireRedis, []string{err.Error()})
	}
	if len(args) > 0 {
		t.Cleanup(server.keeper.stop)
	}
	return announce(t, server)
}

// giveUp ends the test: it fails if a Redis is required, otherwise it is skipped.
func giveUp(t testing.TB, required bool, missing []string) {
	t.Helper()
	message := "redistest: no Redis for this test.\n  " + strings.Join(missing, "\n  ") + "\n" +
		"To get one, do one of these:\n" +
		"  set " + envURL + "=redis://host:port to a server that tests may use;\n" +
		"  start Docker (the image is " + defaultImage + ", or what " + envImage + " names);\n" +
		"  install redis-server or valkey-server (apt-get install redis-server, brew install redis)."
	if required {
		t.Fatalf("%s\nThis is a failure because %s asks for it.", message, envRequire)
	}
	t.Skip(message)
}

// announce logs which server the test uses, because a result is only meaningful with that.
func announce(t testing.TB, server *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	version, err := answering(ctx, server.url)
	if err != nil {
		t.Fatalf("redistest: the %s server at %s has stopped answering: %v", server.Kind, server.Addr(), err)
	}
	t.Logf("redistest: %s at %s (%s)", version, server.Addr(), server.Kind)
	return server
}

// shared holds the outcome for each server, so that the next test does not repeat a start or a
// failure to start.
var shared struct {
	sync.Mutex
	outcomes map[string]outcome
}

type outcome struct {
	server *Server
	err    error
}

// sharedServer returns the binary's server of this kind. The first call starts it.
func sharedServer(kind Kind, set settings) (*Server, error) {
	want, key := order{Kind: kind}, string(kind)
	switch kind {
	case KindURL:
		key += " " + set.url
	case KindDocker:
		want.Image = set.image
		key += " " + set.image
	}

	shared.Lock()
	defer shared.Unlock()
	if known, ok := shared.outcomes[key]; ok {
		return known.server, known.err
	}
	var o outcome
	if kind == KindURL {
		o.server, o.err = connect(set.url)
	} else {
		o.server, o.err = startServer(want)
	}
	if shared.outcomes == nil {
		shared.outcomes = make(map[string]outcome)
	}
	shared.outcomes[key] = o
	return o.server, o.err
}

// connect checks the server that FLEETPACE_REDIS_URL names.
func connect(address string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := answering(ctx, address); err != nil {
		return nil, err
	}
	return &Server{Kind: KindURL, url: address}, nil
}

// startServer starts a server under a keeper.
func startServer(want order) (*Server, error) {
	k, started, err := startKeeper(want)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want.Kind, err)
	}
	return &Server{Kind: want.Kind, url: started.URL, id: started.ID, keeper: k}, nil
}

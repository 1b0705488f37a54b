//go:build clients

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// language is the workers of one language.
type language struct {
	processes int
	calls     atomic.Int64
}

// Workers in Python, in Node and in Go share a limit, those in Go without the server: they have no
// more turns than it allows, and each language has some. How much of it is used, what a strict
// provider refuses and which part each language has are figures.
func TestLanguages(t *testing.T) {
	root, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	dist := filepath.Join(root, "typescript", "dist")
	for what, missing := range map[string]error{
		"python3": look("python3"), "node": look("node"), "the TypeScript client, built with npm run build": exists(filepath.Join(dist, "index.js")),
	} {
		require.NoError(t, missing, "%s is needed", what)
	}
	const rate, callers, seconds = 200, 10, 20
	server, prefix := redistest.New(t), redistest.Prefix(t)
	s := serveTurnsOf(t, server, prefix, "limits:\n  - {name: api, limit: 200/s}\n", "127.0.0.1:0")
	strict := provider.New(provider.TokenBucket(rate, 40))
	api := httptest.NewServer(strict.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(api.Close)
	all := map[string]*language{"python": {processes: 4}, "node": {processes: 4}, "go": {processes: 2}}
	var workers sync.WaitGroup
	began := time.Now()
	run := func(of *language, name string, args ...string) {
		args = append(args, s.address, api.URL, strconv.Itoa(callers), strconv.Itoa(seconds))
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		assert.NoError(t, err)
		calls, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		assert.NoError(t, err)
		of.calls.Add(calls)
	}
	for range 4 {
		workers.Go(func() { run(all["python"], "python3", "testdata/worker.py") })
		workers.Go(func() { run(all["node"], "node", "testdata/worker.mjs", dist) })
	}
	for range 2 {
		limiter, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(rate)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		for range callers {
			workers.Go(func() {
				for limiter.Wait(ctx) == nil {
					answer, err := http.Get(api.URL)
					if assert.NoError(t, err) {
						_ = answer.Body.Close()
						all["go"].calls.Add(1)
					}
				}
			})
		}
	}
	workers.Wait()
	history := strict.History()
	refused := 0
	for _, call := range history {
		if call.Refused {
			refused++
		}
	}
	took := history[len(history)-1].At.Sub(history[0].At).Seconds()
	used := float64(len(history)-1) / took / rate
	share := func(l *language) float64 {
		return float64(l.calls.Load()) / float64(len(history)) / (float64(l.processes) / 10)
	}
	t.Logf("MEASURE used %.3f, refused %d, parts of a fair share: python %.2f, node %.2f, go %.2f",
		used, refused, share(all["python"]), share(all["node"]), share(all["go"]))
	require.LessOrEqual(t, float64(len(history)), float64(reserve.PerSecond(rate).MaxBurst())+rate*time.Since(began).Seconds())
	for name, l := range all {
		require.Positive(t, l.calls.Load(), name)
	}
}

func look(name string) error {
	_, err := exec.LookPath(name)
	return err
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

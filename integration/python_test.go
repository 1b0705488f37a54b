package integration

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// python finds an interpreter with redis-py. Without one the test is skipped, or fails if
// FLEETPACE_REQUIRE says so.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import redis").Run() == nil {
			return name
		}
	}
	if os.Getenv("FLEETPACE_REQUIRE") != "" {
		t.Fatal("no python3 that can import redis, and FLEETPACE_REQUIRE is set: install python3-redis")
	}
	t.Skip("no python3 that can import redis")
	return ""
}

// Workers in Python and in Go share a limit. No two turns are closer than the limit allows, by
// Redis's clock, and the workers take turns in order. The test is not parallel, because it records
// the turns of all limiters.
func TestPythonWorkers(t *testing.T) {
	const perSecond, calls, workers = 10, 30, 2
	interpreter, prefix := python(t), "fleetpace"
	server := redistest.Local(t)
	limiter, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(perSecond)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limiter.Close()) })

	type turn struct {
		due int64
		who int
	}
	var mu sync.Mutex
	var turns []turn
	took := func(due int64, who int) {
		mu.Lock()
		defer mu.Unlock()
		turns = append(turns, turn{due, who})
	}
	observe.Turns(func(o observe.Turn) {
		if o.Prefix == prefix {
			took(o.Turn.UnixMicro(), workers)
		}
	})
	t.Cleanup(func() { observe.Turns(nil) })

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for who := range workers {
		all.Go(func() {
			script := filepath.Join("..", "examples", "python", "worker.py")
			cmd := exec.CommandContext(ctx, interpreter, script, "redis://"+server.Addr(), "api", strconv.Itoa(perSecond), "1", strconv.Itoa(calls))
			var problems bytes.Buffer
			cmd.Stderr = &problems
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, problems.String())
			}
			for scanner := bufio.NewScanner(bytes.NewReader(out)); scanner.Scan(); {
				due, err := strconv.ParseInt(strings.TrimSpace(scanner.Text()), 10, 64)
				if err != nil {
					t.Errorf("%v", err)
				}
				took(due, who)
			}
		})
	}
	all.Go(func() {
		for range calls {
			if err := limiter.Wait(ctx); err != nil {
				t.Errorf("%v", err)
				return
			}
		}
	})
	all.Wait()

	require.Len(t, turns, (workers+1)*calls)
	slices.SortFunc(turns, func(a, b turn) int { return int(a.due - b.due) })
	first, last := make([]int, workers+1), make([]int, workers+1)
	for i, turn := range slices.Backward(turns) {
		if first[turn.who] = i; last[turn.who] == 0 {
			last[turn.who] = i
		}
	}
	seen := make([]int, workers+1)
	// While all of them call, none is left out. But a worker that was suspended for some seconds has
	// missed its turns meanwhile.
	for i, turn := range turns {
		if i > slices.Max(first) && i < slices.Min(last) && seen[turn.who] > slices.Max(first) {
			require.LessOrEqual(t, i-seen[turn.who], 4*(workers+1)+3*perSecond, "turn %d", i)
		}
		seen[turn.who] = i
	}
	for i := 1; i < len(turns); i++ {
		require.GreaterOrEqual(t, turns[i].due-turns[i-1].due, int64(1e6/perSecond-2), "turn %d", i)
	}
}

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	soakLimiters = 3
	soakCallers  = 6 // for each limiter
	soakKeys     = 5
	soakPool     = 4 // the most connections of each limiter

	// soakHeap is how much the heap may grow from the end of the warm-up to the end. It allows for
	// pools and the garbage collector. A leak of each call would exceed it, as there are tens of
	// thousands of calls.
	soakHeap = 512 << 10
)

// soakLength is a variable: how long the soak takes, such as 10m. With it, a few other tests take
// longer, too.
const soakLength = "FLEETPACE_SOAK"

// A fleet has random faults. Afterwards it has the same goroutines, connections and memory as after
// the first sixth of the time.
func TestSoakWithFaults(t *testing.T) {
	length := 6 * time.Second
	if text := os.Getenv(soakLength); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "%s is how long the test takes, such as 60s", soakLength)
	}
	long(t, fmt.Sprintf("takes %v", length))
	s := newSoak(t)
	s.run(length / 6)
	warm := s.rest(atRest{})
	s.run(length - length/6)
	end := s.rest(warm)
	s.close()

	line, err := json.Marshal(map[string]any{
		"seconds": length.Seconds(), "calls": s.calls.Load(), "turns": s.turns.Load(), "faults": s.faults,
		"errors": s.counted(), "warm": warm, "end": end,
	})
	require.NoError(t, err)
	t.Logf("SOAK %s", line)
	require.Empty(t, s.untyped, "errors that the package does not name")
	require.Positive(t, s.turns.Load())
	require.LessOrEqual(t, end.Goroutines, warm.Goroutines, "at the end:\n%s\nafter the warm-up:\n%s", end.stacks, warm.stacks)
	require.LessOrEqual(t, end.Connections, soakLimiters*soakPool)
	require.Less(t, end.HeapBytes-warm.HeapBytes, int64(soakHeap))
}

// soak is a fleet in one process, on a Redis behind a network that fails.
type soak struct {
	*testing.T
	admin    *redis.Client // a connection without faults
	proxy    *soakProxy
	limiters []*reserve.Limiter
	clients  []*redis.Client
	random   *rand.Rand
	faults   map[string]int

	calls, turns atomic.Int64
	mu           sync.Mutex
	errors       map[string]int
	untyped      []string
}

// atRest is what a fleet has while it is idle.
type atRest struct {
	Goroutines  int   `json:"goroutines"`
	Connections int   `json:"connections"`
	HeapBytes   int64 `json:"heap_bytes"`

	stacks string // of the goroutines
}

func newSoak(t *testing.T) *soak {
	// With an option, the server belongs to this test alone, so the test may flush it.
	server := redistest.Local(t, "--maxclients", "1000")
	s := &soak{
		T: t, admin: server.Client(t), errors: map[string]int{}, faults: map[string]int{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
	s.proxy = startSoakProxy(t, server.Addr())
	for range soakLimiters {
		client := redis.NewClient(&redis.Options{
			Addr: s.proxy.address, PoolSize: soakPool, MaxActiveConns: soakPool, DisableIdentity: true,
			ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, // small, because idle connections of a pool are not a leak
			DialTimeout: time.Second, ReadTimeout: 500 * time.Millisecond, WriteTimeout: 500 * time.Millisecond,
		})
		l, err := reserve.New(client, reserve.Config{
			Name: "api", Prefix: redistest.Prefix(t), Limit: reserve.PerSecond(100).Burst(5),
		})
		require.NoError(t, err)
		s.clients, s.limiters = append(s.clients, client), append(s.limiters, l)
	}
	return s
}

// run lets all callers call, and faults happen, for a while.
func (s *soak) run(length time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), length)
	defer cancel()
	var callers sync.WaitGroup
	for i, l := range s.limiters {
		for n := range soakCallers {
			random := rand.New(rand.NewPCG(uint64(i), uint64(n)))
			callers.Go(func() {
				for ctx.Err() == nil {
					s.call(l.For(fmt.Sprint("key-", random.IntN(soakKeys))), random)
				}
			})
		}
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(500+s.random.IntN(1000)) * time.Millisecond):
			s.fault()
		}
	}
	// Each call has a deadline of a few seconds.
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(liveness):
		s.Fatal("calls are stuck")
	}
}

// call makes a call of any kind, and gives some of them up.
func (s *soak) call(l *reserve.Limiter, random *rand.Rand) {
	s.calls.Add(1)
	ctx, cancel := context.WithTimeout(s.Context(), time.Duration(1+random.IntN(3000))*time.Millisecond)
	defer cancel()
	n := 1 + random.IntN(5)
	var err error
	turn := false
	switch random.IntN(4) {
	case 0:
		turn, err = l.AllowN(ctx, n)
	case 1:
		var r *reserve.Reservation
		if r, err = l.ReserveN(ctx, n); err == nil {
			if random.IntN(2) == 0 {
				err = r.Wait(ctx)
				turn = err == nil
			}
			if !turn { // otherwise it keeps its place
				err = errors.Join(err, r.Cancel(context.WithoutCancel(ctx)))
			}
		}
	default:
		if random.IntN(2) == 0 { // a cancellation; a call with a deadline would be refused at once
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(s.Context())
			defer stop()
			defer time.AfterFunc(time.Duration(random.IntN(1000))*time.Millisecond, stop).Stop()
		}
		err = l.WaitN(ctx, n)
		turn = err == nil
	}
	if turn {
		s.turns.Add(1)
	}
	if err != nil {
		s.count(err)
		if errors.Is(err, reserve.ErrUnavailable) || errors.Is(err, reserve.ErrWouldMissDeadline) {
			time.Sleep(time.Millisecond) // a delay as real callers have, so that not all results are errors
		}
	}
}

func (s *soak) count(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range []error{
		reserve.ErrUnavailable, reserve.ErrWouldMissDeadline, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			s.errors[known.Error()]++
			return
		}
	}
	s.untyped = append(s.untyped, err.Error())
}

func (s *soak) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errors
}

// fault causes one fault.
func (s *soak) fault() {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	kinds := []string{"cut", "latency", "silence", "FLUSHALL", "CLIENT KILL", "SCRIPT FLUSH"}
	kind := kinds[s.random.IntN(len(kinds))]
	s.faults[kind]++
	switch kind {
	case "cut":
		s.proxy.order(kind, s.upTo(0, 500*time.Millisecond))
	case "latency", "silence":
		s.proxy.order(kind, s.upTo(200*time.Millisecond, 800*time.Millisecond))
	case "FLUSHALL":
		require.NoError(s, s.admin.FlushAll(ctx).Err())
	case "CLIENT KILL":
		require.NoError(s, s.admin.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err())
	case "SCRIPT FLUSH":
		require.NoError(s, s.admin.ScriptFlush(ctx).Err())
	}
}

// upTo is a random duration.
func (s *soak) upTo(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// rest waits until the fleet is idle and returns what it has. It counts the connections and then
// closes them, to end the goroutines that serve them. Goroutines with their own timers may take
// long to end, so it waits longer if there were fewer of them before.
func (s *soak) rest(before atRest) (r atRest) {
	ctx := s.Context()
	for _, l := range s.limiters {
		for key := range soakKeys {
			require.Eventually(s, func() bool {
				_, err := l.For(fmt.Sprint("key-", key)).State(ctx)
				return err == nil
			}, liveness, 10*time.Millisecond)
		}
	}
	// Each limiter has one more connection, for news, while a call waits.
	require.Eventually(s, func() bool { return s.connections() <= soakLimiters*soakPool }, liveness, 10*time.Millisecond)
	clients := s.connections()
	require.Eventually(s, func() bool { // a heartbeat may open a connection in between
		for _, kind := range []string{"normal", "pubsub"} {
			require.NoError(s, s.admin.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err())
		}
		return s.connections() == 0
	}, liveness, 10*time.Millisecond)
	r = atRest{Connections: clients}
	patience := liveness
	if before.Goroutines == 0 {
		patience = 2 * time.Second
	}
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if n, stacks := s.goroutines(); r.Goroutines == 0 || n < r.Goroutines {
			r.Goroutines, r.stacks = n, stacks
		}
		if r.Goroutines <= before.Goroutines {
			break
		}
	}
	var m runtime.MemStats
	for range 3 { // objects with finalizers or in pools are freed by the second or third
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	r.HeapBytes = int64(m.HeapAlloc)
	return r
}

// goroutines returns their number and their stacks.
func (s *soak) goroutines() (n int, stacks string) {
	var all bytes.Buffer
	require.NoError(s, pprof.Lookup("goroutine").WriteTo(&all, 2))
	return strings.Count(all.String(), "\n\n") + 1, all.String()
}

// connections returns how many connections the server has, without this test's own.
func (s *soak) connections() int {
	list, err := s.admin.ClientList(s.Context()).Result()
	require.NoError(s, err)
	return strings.Count(list, "\n") - 1
}

// close ends the fleet. Then no connection is left.
func (s *soak) close() {
	for i, l := range s.limiters {
		require.NoError(s, l.Close())
		require.NoError(s, s.clients[i].Close())
	}
	require.Eventually(s, func() bool { return s.connections() == 0 }, liveness, 10*time.Millisecond)
}

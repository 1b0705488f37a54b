package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// job is the job of a worker process, as JSON in its environment.
type job struct {
	Redis     string   // URL
	Sentinels []string // use these in place of Redis
	Prefix    string
	Limit     string
	API       string // the URL that is called once per turn
	Calls     int    // goroutines that call all the time
	Turns     string // the ledger's directory
	Version   string // of fleetpace: earlier or v0.2; empty: the current one
	Failed    bool   // the process also tells the API of each call that fails
}

// failedPath is the path at which a worker process tells the API of a call that failed.
const failedPath = "/failed"

// report is what a worker process prints at its end.
type report struct {
	Calls      int
	Errors     []string
	OutOfOrder int
	Beats      []heartbeat // of a process of v0.2
}

// long skips a test under -short, with the reason. If skips are forbidden, the test fails.
func long(t *testing.T, why string) {
	t.Helper()
	switch {
	case testing.Short() && os.Getenv("FLEETPACE_REQUIRE") != "":
		t.Fatalf("%s, and -short leaves it out: FLEETPACE_REQUIRE forbids that", why)
	case testing.Short():
		t.Skipf("%s: run without -short", why)
	}
}

const jobVariable = "FLEETPACE_INTEGRATION_JOB"

// heldVariable makes the process end when its standard input ends. The process that started it holds
// that open, so no worker outlives tests that are killed.
const heldVariable = "FLEETPACE_INTEGRATION_HELD"

// TestMain runs the tests or, if a test started this binary, its job.
func TestMain(m *testing.M) {
	if os.Getenv(heldVariable) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	for variable, work := range map[string]func(string) error{
		jobVariable: work, asynqVariable: workAsynq, faultVariable: workFault, soakVariable: workSoakProxy,
		pauseVariable: workPause, slowVariable: callSlow, plansVariable: workPlans,
	} {
		if text := os.Getenv(variable); text != "" {
			if err := work(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	redistest.SideBySide(6)
	os.Exit(m.Run())
}

// work calls the API, turn after turn, until it is interrupted.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := keepTurns(j.Turns, "worker"); err != nil {
		return err
	}
	client, err := faultRedis{URL: j.Redis, Sentinels: j.Sentinels}.client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	switch j.Version {
	case earlier:
		client.AddHook(frozen.New(frozen.Texts))
	case v02:
		return j.workV02(client)
	}
	limit, err := reserve.ParseLimit(j.Limit)
	if err != nil {
		return err
	}
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: j.Prefix, Limit: limit})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var mu sync.Mutex
	var r report
	var calls sync.WaitGroup
	for i := range j.Calls {
		calls.Go(func() {
			for ctx.Err() == nil {
				held, err := turn(ctx, limiter, i%2 == 0)
				if ctx.Err() != nil {
					return
				}
				if err == nil {
					err = reach(j.API)
				}
				if held != nil {
					held.Release()
				}
				mu.Lock()
				if err != nil {
					r.Errors = append(r.Errors, err.Error())
				} else {
					r.Calls++
				}
				mu.Unlock()
				if err != nil && j.Failed {
					_ = reach(j.API + failedPath)
				}
				if err != nil {
					time.Sleep(afterError)
				}
			}
		})
	}
	calls.Wait()
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// turn waits for a turn in one of three ways: slots need the third one.
func turn(ctx context.Context, limiter *reserve.Limiter, reservation bool) (*reserve.Reservation, error) {
	if limiter.Limit().Kind() == reserve.KindSlots {
		return limiter.Acquire(ctx, 1)
	}
	if !reservation {
		return nil, limiter.Wait(ctx)
	}
	r, err := limiter.Reserve(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.Wait(ctx); err != nil {
		_ = r.Cancel(context.WithoutCancel(ctx))
		return nil, err
	}
	return r, nil
}

var api = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: liveness}

// worker is a running worker process.
type worker struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  io.ReadCloser
	once sync.Once
}

func startWorker(t testing.TB, j job) *worker {
	t.Helper()
	return startProcess(t, jobVariable, j)
}

// startProcess starts the test binary again, with a job in its environment.
func startProcess(t testing.TB, variable string, j any) *worker {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	// By default the race detector sleeps for a second before the process ends.
	cmd.Env = append(os.Environ(), variable+"="+string(text), heldVariable+"=1")
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // open until one of the two processes ends
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := &worker{t: t, cmd: cmd, out: out}
	t.Cleanup(w.kill)
	return w
}

func (w *worker) signal(s os.Signal) { require.NoError(w.t, w.cmd.Process.Signal(s)) }

// stop interrupts the worker and returns its report.
func (w *worker) stop() report {
	w.t.Helper()
	w.signal(os.Interrupt)
	return w.report()
}

// report returns what a worker prints at its end.
func (w *worker) report() report {
	w.t.Helper()
	var r report
	require.NoError(w.t, json.NewDecoder(w.out).Decode(&r))
	w.once.Do(func() { require.NoError(w.t, w.cmd.Wait()) })
	return r
}

// kill ends the worker with a signal, if it still runs. If the test has failed, the signal makes Go
// print the stacks.
func (w *worker) kill() {
	w.once.Do(func() {
		if w.t.Failed() && w.cmd.Process.Signal(syscall.SIGQUIT) == nil {
			time.AfterFunc(5*time.Second, func() { _ = w.cmd.Process.Kill() })
			_ = w.cmd.Wait()
			return
		}
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
}

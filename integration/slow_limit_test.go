package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// A process is stopped just as its turn of a slow limit comes. It has the turn when it continues:
// no call came after it, so nobody else has used the turn. Otherwise it would wait for an hour.
func TestSlowLimitOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	for _, call := range []slowCall{{}, {Allow: true}, {behind: 20}, {Allow: true, behind: 20}} {
		for _, stopped := range []time.Duration{30 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 8 * time.Second} {
			t.Run(fmt.Sprintf("allow %t, %d behind, %v", call.Allow, call.behind, stopped), func(t *testing.T) {
				t.Parallel()
				stopSlowCall(t, call, stopped)
			})
		}
	}
}

// slowCall is the job of the process that is stopped.
type slowCall struct {
	URL, Prefix string
	Allow       bool // call Allow; otherwise Wait
	behind      int  // how many calls wait behind it
}

const (
	slowVariable = "FLEETPACE_TEST_SLOW"
	slowKey      = "fresh"
)

func (c slowCall) limiter(client redis.UniversalClient) (*reserve.Limiter, error) {
	return reserve.New(client, reserve.Config{Name: "api", Prefix: c.Prefix, Limit: reserve.PerHour(1)})
}

// callSlow runs in the process. It measures the round trip to Redis, and calls on order.
func callSlow(text string) error {
	var c slowCall
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	options, err := redis.ParseURL(c.URL)
	if err != nil {
		return err
	}
	l, err := c.limiter(redis.NewClient(options))
	if err != nil {
		return err
	}
	if err := l.Wait(context.Background()); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	had := true
	if c.Allow {
		had, err = l.For(slowKey).Allow(context.Background())
	} else {
		err = l.For(slowKey).Wait(context.Background())
	}
	fmt.Println(had, err)
	return nil
}

func stopSlowCall(t *testing.T, c slowCall, stopped time.Duration) {
	server := redistest.Local(t)
	c.URL, c.Prefix = "redis://"+server.Addr(), redistest.Prefix(t)
	l, err := c.limiter(server.Client(t))
	require.NoError(t, err)

	way := listen(t, server.Addr())
	c.URL = "redis://" + way.address()
	process := startSlow(t, c)
	require.Equal(t, "ready", process.line(t))
	var waiting sync.WaitGroup
	var had atomic.Int64 // calls behind it that had a turn
	ctx, leave := context.WithCancel(t.Context())
	goesOn := make(chan struct{})
	way.beforeReply(func() {
		process.signal(t, syscall.SIGSTOP)
		for range c.behind {
			waiting.Go(func() {
				if l.For(slowKey).Wait(ctx) == nil {
					had.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool {
			state, err := l.For(slowKey).State(ctx)
			return err == nil && int(state.Waiting) == c.behind
		}, time.Minute, 10*time.Millisecond)
		time.AfterFunc(stopped, func() {
			process.signal(t, syscall.SIGCONT)
			close(goesOn)
		})
	})
	_, err = fmt.Fprintln(process.in, "call")
	require.NoError(t, err)
	require.Equal(t, "true <nil>", process.line(t))
	<-goesOn

	state, err := l.For(slowKey).State(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 0, time.Until(state.NextFree), float64(30*time.Minute), "it used one permit: none would be an hour before, two an hour later")
	leave()
	waiting.Wait()
	require.Zero(t, had.Load(), "there was one permit")
	require.NoError(t, l.Close())
}

// slowProcess is a process that calls.
type slowProcess struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string
}

func startSlow(t *testing.T, c slowCall) *slowProcess {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	p := &slowProcess{cmd: exec.Command(os.Args[0]), lines: make(chan string, 2)}
	p.cmd.Env = append(os.Environ(), slowVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// line returns the next line of the process. It must come well before an hour has passed.
func (p *slowProcess) line(t *testing.T) string {
	t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the process waits for another turn")
		return ""
	}
}

func (p *slowProcess) signal(t *testing.T, s os.Signal) { require.NoError(t, p.cmd.Process.Signal(s)) }

// slowWay is the network between a process and Redis.
type slowWay struct {
	listener net.Listener
	mu       sync.Mutex
	armed    func()
	asked    net.Conn // the connection of the call whose reply is expected
}

func listen(t *testing.T, server string) *slowWay {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &slowWay{listener: listener}
	var ending sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		ending.Wait()
	})
	ending.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", server)
			if err != nil {
				_ = near.Close()
				return
			}
			ending.Go(func() { w.requests(near, far); _ = far.Close() })
			ending.Go(func() { w.replies(near, far); _ = near.Close() })
		}
	})
	return w
}

func (w *slowWay) address() string { return w.listener.Addr().String() }

// beforeReply runs a function before it passes on the reply to the next call of the slow limit.
func (w *slowWay) beforeReply(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = do
}

func (w *slowWay) requests(near, far net.Conn) {
	w.pass(near, far, func(text []byte) (do func()) {
		if w.armed != nil && w.asked == nil && bytes.Contains(text, []byte(":"+slowKey)) {
			w.asked = near
		}
		return nil
	})
}

func (w *slowWay) replies(near, far net.Conn) {
	w.pass(far, near, func([]byte) (do func()) {
		if w.asked == near {
			do, w.armed, w.asked = w.armed, nil, nil
		}
		return do
	})
}

// pass copies data from one side to the other, and first calls the function that look returns.
func (w *slowWay) pass(from io.Reader, to io.Writer, look func([]byte) func()) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			w.mu.Lock()
			do := look(buffer[:n])
			w.mu.Unlock()
			if do != nil {
				do()
			}
		}
		if _, broken := to.Write(buffer[:n]); err != nil || broken != nil {
			return
		}
	}
}

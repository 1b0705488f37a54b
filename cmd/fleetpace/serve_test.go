package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// served is a process of fleetpace serve.
type served struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	read    sync.WaitGroup // of what it says
}

// serveTurnsOf starts the command, and returns when it listens.
func serveTurnsOf(t *testing.T, server *redistest.Server, prefix, limits, address string, more ...string) *served {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte(limits), 0o600))
	args := append([]string{"serve", "-redis", server.URL(), "-limits", path, "-listen", address, "-prefix", prefix}, more...)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s := &served{t: t, cmd: cmd}
	t.Cleanup(s.kill)
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "turns are at "); ok {
			s.address = at
			s.read.Go(func() {
				rest, _ := io.ReadAll(errs)
				assert.NotContains(t, string(rest), "DATA RACE")
			})
			return s
		}
		assert.NotContains(t, lines.Text(), "DATA RACE")
	}
	t.Fatal("the command has ended: ", cmd.Wait())
	return nil
}

func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	s.read.Wait()
	_ = s.cmd.Wait()
}

// client asks a server at a socket or an address, over connections that it keeps.
func (s *served) client() *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 2000,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if path, ok := strings.CutPrefix(s.address, "unix:"); ok {
				return dialer.DialContext(ctx, "unix", path)
			}
			return dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.address, "http://"))
		},
	}}
}

// ask asks once; 0 is of a server that does not answer.
func ask(ctx context.Context, client *http.Client, path, body string) (status int, later time.Duration) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return 0, 0
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := client.Do(r)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = w.Body.Close() }()
	var a struct {
		RetryAfter float64 `json:"retry_after_ms"`
	}
	_ = json.NewDecoder(w.Body).Decode(&a)
	return w.StatusCode, time.Duration(a.RetryAfter * float64(time.Millisecond))
}

// waiting is how many calls wait.
func waiting(t *testing.T, client *http.Client) int {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/limits/api", nil)
	require.NoError(t, err)
	w, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = w.Body.Close() }()
	var a struct{ Waiting int }
	require.NoError(t, json.NewDecoder(w.Body).Decode(&a))
	return a.Waiting
}

// turn asks under an id until the call has its turn.
func turn(ctx context.Context, client *http.Client, id string) bool {
	for ctx.Err() == nil {
		status, later := ask(ctx, client, "/v1/wait", fmt.Sprintf(`{"limits":[{"name":"api"}],"id":%q}`, id))
		switch status {
		case http.StatusOK:
			return true
		case http.StatusAccepted:
		default:
			later = time.Duration(20+rand.IntN(80)) * time.Millisecond
		}
		time.Sleep(later)
	}
	return false
}

// A server is killed while 500 callers wait under ids, and another one comes: each of them has
// its turn, and no more turns are given than the limit allows. In which order is a figure here, and
// judged in simulated time by remote's TestAnotherServer.
func TestServeIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	prefix := redistest.Prefix(t)
	const limits = "limits:\n  - {name: api, limit: 200/s}\n"
	first := serveTurnsOf(t, server, prefix, limits, socket)
	client := first.client()
	api := provider.New(provider.TokenBucket(200, 60)) // a figure: this machine may stand still for longer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const callers = 500
	had := make([]time.Time, callers)
	var refused int
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for i := range callers {
		all.Go(func() {
			if !turn(ctx, client, fmt.Sprint("caller-", i)) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ok, _ := api.Judge(1); !ok {
				refused++
			}
			had[i] = time.Now()
		})
		time.Sleep(time.Millisecond)
	}
	first.kill()
	serveTurnsOf(t, server, prefix, limits, socket)
	all.Wait()
	took := time.Since(began)
	require.LessOrEqual(t, callers, int(200*took.Seconds())+1, "no more turns than the limit allows")
	// Who had a turn that the dead server did not tell of, given at most half a second ahead, comes
	// again at the end. All others keep their places.
	var last time.Time // of those that came later, the first one that had its turn
	var worst time.Duration
	behind := 0
	for i := callers - 1; i >= 0; i-- {
		require.False(t, had[i].IsZero(), "caller %d has had no turn", i)
		if last.IsZero() || had[i].Before(last) {
			last = had[i]
		} else if late := had[i].Sub(last); late > time.Second {
			behind, worst = behind+1, max(worst, late)
		}
	}
	t.Logf("MEASURE %d callers in %v, refused %d, %d of them more than a second out of place, by at most %v",
		callers, took.Round(time.Millisecond), refused, behind, worst.Round(time.Millisecond))
}

// A server is killed as soon as it has given a slot, before anybody has heard that it lives: the
// slot is free again some seconds later.
func TestServeIsKilledWithASlot(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.New(t), redistest.Prefix(t)
	const limits, body = "limits:\n  - {name: api, limit: 1 at once}\n", `{"limits":[{"name":"api"}],"max_wait":"50s"}`
	first := serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0")
	status, _ := ask(t.Context(), first.client(), "/v1/wait", body)
	require.Equal(t, http.StatusOK, status)
	first.kill()
	second := serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0", "-poll", "1m")
	began := time.Now()
	status, _ = ask(t.Context(), second.client(), "/v1/wait", body)
	require.Equal(t, http.StatusOK, status)
	t.Logf("MEASURE the slot was free after %v", time.Since(began).Round(time.Millisecond))
}

// tryTake takes a turn, and returns the body that names it; empty if there was none.
func tryTake(t *testing.T, client *http.Client, body string) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/wait", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	w, err := client.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = w.Body.Close() }()
	if w.StatusCode != http.StatusOK {
		return ""
	}
	var a struct{ Turn string }
	if json.NewDecoder(w.Body).Decode(&a) != nil {
		return ""
	}
	return fmt.Sprintf(`{"turn":%q}`, a.Turn)
}

// A third of those that wait hang up: the others have their turns, and as good as no permit is
// lost. Then the server ends in order: who waits is told to ask again.
func TestServeIsHungUpOn(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := serveTurnsOf(t, server, redistest.Prefix(t), "limits:\n  - {name: api, limit: 200/s}\n", "127.0.0.1:0", "-poll", "10m")
	client := s.client()
	const callers = 300
	var all sync.WaitGroup
	began := time.Now()
	var mu sync.Mutex
	turns := 0
	for i := range callers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 1 {
				time.AfterFunc(time.Duration(rand.IntN(500))*time.Millisecond, cancel)
			}
			status, _ := ask(ctx, client, "/v1/wait", `{"limits":[{"name":"api"}]}`)
			mu.Lock()
			defer mu.Unlock()
			if status == http.StatusOK {
				turns++
			} else {
				assert.Equal(t, 1, i%3)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("MEASURE %d turns of 200/s in %v", turns, took.Round(time.Millisecond))
	require.GreaterOrEqual(t, turns, callers*2/3)

	pause, _ := ask(t.Context(), client, "/v1/pause", `{"limits":[{"name":"api"}],"for":"5m"}`)
	require.Equal(t, http.StatusNoContent, pause)
	var statuses []int
	for range 20 {
		all.Go(func() {
			status, _ := ask(t.Context(), client, "/v1/wait", `{"limits":[{"name":"api"}]}`)
			mu.Lock()
			defer mu.Unlock()
			statuses = append(statuses, status)
		})
	}
	require.Eventually(t, func() bool { return waiting(t, client) == 20 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	all.Wait()
	require.NoError(t, s.cmd.Wait())
	for _, status := range statuses {
		require.Equal(t, http.StatusAccepted, status)
	}
}

// Clients that send slowly, or too much, are sent away, and do not hold up others.
func TestServeIsHostileTo(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := serveTurnsOf(t, server, redistest.Prefix(t), "limits:\n  - {name: api, limit: 1000/s}\n", "127.0.0.1:0")
	client := s.client()
	before := memoryOf(t, s.cmd.Process.Pid)
	var slow sync.WaitGroup
	for i := range 100 {
		slow.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.address, "http://"))
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			head := "POST /v1/wait HTTP/1.1\r\nHost: " + []string{"localhost", "elsewhere.test"}[i%2] + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
			switch i % 3 {
			case 0:
				head += "\r\n{" // a body that never comes
			case 1: // the same of one that is not let in
				head = strings.Replace(head, "application/json", "text/plain", 1) + "\r\n{"
			}
			_, err = conn.Write([]byte(head))
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
			_, err = io.Copy(io.Discard, conn)
			assert.NoError(t, err, "the server closes the connection")
		})
	}
	for range 50 {
		status, _ := ask(t.Context(), client, "/v1/wait", `{"limits":[{"name":"api"}]}`)
		require.Equal(t, http.StatusOK, status)
		status, _ = ask(t.Context(), client, "/v1/wait", `{"limits":[{"name":"`+strings.Repeat("x", 10<<20)+`"}]}`)
		require.Contains(t, []int{http.StatusRequestEntityTooLarge, 0}, status) // 0: the connection was cut
	}
	slow.Wait()
	after := memoryOf(t, s.cmd.Process.Pid)
	t.Logf("MEASURE memory %d KiB before, %d KiB after", before, after)
	require.Less(t, after-before, 64<<10)
}

// memoryOf is the resident memory of a process, in KiB.
func memoryOf(t *testing.T, pid int) (kib int) {
	if runtime.GOOS != "linux" { // elsewhere it is not measured
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib
}

// Nobody from elsewhere is let in without TLS and a token, or a client certificate.
func TestServeAdmits(t *testing.T) {
	for _, c := range []struct {
		serving
		token, wrong string
	}{
		{serving{listen: "localhost:1"}, "", ""},
		{serving{listen: "[::1]:1"}, "", ""},
		{serving{listen: "unix:/s"}, "", ""},
		{serving{listen: "unix:"}, "", "--listen"},
		{serving{listen: ":1"}, "secret", "--cert"},
		{serving{listen: "10.0.0.1:1"}, "", "--cert"},
		{serving{listen: ":1", cert: "c"}, "", "--key"},
		{serving{listen: "localhost:1", clientCA: "c"}, "", "--client-ca"},
		{serving{listen: ":1", cert: "c", key: "k"}, "", tokenVariable},
		{serving{listen: ":1", cert: "none", key: "none"}, "secret", "none"},
	} {
		if _, err := c.secure(c.token, io.Discard); c.wrong == "" {
			assert.NoError(t, err, "%+v", c)
		} else {
			assert.ErrorContains(t, err, c.wrong, "%+v", c)
		}
	}
}

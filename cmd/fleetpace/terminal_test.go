package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// asCommand lets the test binary be the command.
const asCommand = "FLEETPACE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if address := os.Getenv(asCaller); address != "" {
		holdSlots(address)
		return
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	redistest.SideBySide(12)
	os.Exit(m.Run())
}

// terminal is one of tmux, with a shell.
type terminal struct {
	*testing.T
	socket string
}

func newTerminal(t *testing.T, width, height int) *terminal {
	if _, err := exec.LookPath("tmux"); err != nil {
		redistest.Missing(t, "tmux is not installed: apt-get install tmux")
	}
	w := &terminal{t, fmt.Sprintf("fleetpace-%d-%d", os.Getpid(), time.Now().UnixNano())}
	w.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env PS1='ready> ' sh")
	t.Cleanup(func() { // the test's context has ended
		assert.NoError(t, exec.Command("tmux", "-L", w.socket, "kill-server").Run())
	})
	w.until("ready>")
	return w
}

func (w *terminal) tmux(args ...string) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), "tmux", append([]string{"-L", w.socket}, args...)...).CombinedOutput()
	if w.Context().Err() == nil {
		require.NoError(w, err, "%s", out)
	}
	return string(out)
}

func (w *terminal) screen() string { return w.tmux("capture-pane", "-p") }

// until waits for texts on the screen.
func (w *terminal) until(texts ...string) (screen string) {
	w.Helper()
	if !assert.Eventually(w, func() bool {
		screen = w.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	}, 30*time.Second, 50*time.Millisecond) {
		w.Fatalf("want %q on the screen:\n%s", texts, w.screen())
	}
	return screen
}

func (w *terminal) types(keys ...string) {
	w.tmux(append([]string{"send-keys"}, keys...)...)
}

// The full screen follows the fleet and the size of the terminal; a Redis that goes away is said;
// and whatever ends it, the terminal is as it was.
func TestWatchInATerminal(t *testing.T) {
	server, err := embedded.Start("")
	require.NoError(t, err)
	stopped := false
	defer func() {
		if !stopped {
			server.Close()
		}
	}()
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	s := &scene{T: t, url: server.URL(), prefix: "fleetpace", client: client}
	l := s.limiter("openai", "1/hour")
	require.NoError(t, l.Wait(t.Context()))
	s.wait(l, 4)
	s.known("openai")
	w := newTerminal(t, 100, 12)
	w.types("-l", fmt.Sprintf("%s=1 %s -redis %s watch --every 100ms; echo status $?", asCommand, os.Args[0], s.url))
	w.types("Enter")
	w.until("q ends", "openai", "1/hour")
	require.NoError(t, l.Pause(t.Context(), time.Hour, "their status page is red"))
	t.Log(w.until(" 59m", "their status page is red")) // it is there for a minute, which is longer than this waits
	w.tmux("resize-window", "-x", "50", "-y", "8")
	narrow := w.until("q ends", "…")
	for line := range strings.Lines(narrow) {
		require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 50)
	}
	w.tmux("resize-window", "-x", "110", "-y", "12")
	stopped = true
	server.Close()
	w.until("Redis does not answer", "openai")
	w.types("C-c")
	after := w.until("status 0", "ready>")
	require.NotContains(t, after, "q ends", "the former screen is back")
	w.types("-l", "echo it is seen what is typed")
	w.types("Enter")
	w.until("ready> echo it is seen what is typed", "\nit is seen what is typed\nready>") // the shell reads again
	w.types("-l", "stty -a | grep -c -- ' icanon'")
	w.types("Enter")
	w.until("\n1\n")
}

// A command writes no question to the terminal, whose answer would take the place of what was typed ahead.
func TestCommandsAskTheTerminalNothing(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		redistest.Missing(t, "script is not installed: apt-get install bsdutils")
	}
	s := newScene(t, redistest.Mini(t))
	l := s.limiter("openai", "1000/s")
	require.NoError(t, l.Wait(t.Context()))
	s.known("openai")
	require.NoError(t, l.Pause(t.Context(), time.Hour, ""))
	line := fmt.Sprintf("%s --redis %s --prefix %s resume openai", os.Args[0], s.url, s.prefix)
	c := exec.CommandContext(t.Context(), "script", "--quiet", "--return", "--command", line, "/dev/null")
	c.Env, c.Stdin = append(os.Environ(), asCommand+"=1", "TERM=xterm"), strings.NewReader("y\n")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "\x1b")
	require.NoError(t, l.Wait(t.Context()), "the pause has ended")
}

package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test binary can end in many ways; each leaves no server behind.
func TestNoServerOutlivesTheTestBinary(t *testing.T) {
	ends := map[string]struct {
		scenario string
		end      func(child *os.Process) error // nil when the child ends by itself
	}{
		"passes":          {"", nil},
		"panics":          {"panic", nil},
		"is killed":       {"hang", (*os.Process).Kill},
		"is interrupted":  {"hang", func(child *os.Process) error { return syscall.Kill(-child.Pid, syscall.SIGINT) }},
		"group is killed": {"hang", func(child *os.Process) error { return syscall.Kill(-child.Pid, syscall.SIGKILL) }},
	}
	for name, test := range ends {
		for _, kind := range []Kind{KindDocker, KindLocal} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				if kind == KindDocker {
					Docker(t)
				}
				Local(t)

				child := scenario(t.Context(), test.scenario, envKind+"="+string(kind), envImage+"="+imageInUse())
				child.SysProcAttr = ownGroup()
				output, err := child.StdoutPipe()
				require.NoError(t, err)
				// As under "go test", the keepers share it: it ends after them.
				errorOutput, err := child.StderrPipe()
				require.NoError(t, err)
				require.NoError(t, child.Start())

				want := 1
				if test.scenario != "" {
					want = 2
				}
				servers := serversOf(t, output, want)
				if test.end != nil {
					for _, server := range servers {
						require.NoError(t, server.Client(t).Ping(t.Context()).Err(), "the server was not there before the end")
					}
					require.NoError(t, test.end(child.Process))
				}
				rest, err := io.ReadAll(errorOutput)
				require.NoError(t, err)
				err = child.Wait()
				assert.Equal(t, test.scenario == "", err == nil, "the child ended with %v and said\n%s", err, rest)

				for _, server := range servers {
					assertGone(t, server)
					assertRemoved(t, server)
				}
			})
		}
	}
}

// The last line of defence: the keeper itself is killed.
func TestLocalEndsWithItsKeeper(t *testing.T) {
	server := Local(t, "--appendonly", "no")
	config, err := server.Client(t).ConfigGet(t.Context(), "dir").Result()
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(config["dir"])) }() // what the keeper would have done

	require.NoError(t, server.keeper.process.Process.Kill())
	require.Eventually(t, func() bool {
		connection, err := net.DialTimeout("tcp", server.Addr(), time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, patience, 10*time.Millisecond)
}

// serversOf reads which servers the child uses.
func serversOf(t *testing.T, output io.Reader, n int) []*Server {
	t.Helper()
	var servers []*Server
	var said strings.Builder
	for lines := bufio.NewScanner(output); len(servers) < n && lines.Scan(); {
		_, _ = fmt.Fprintln(&said, lines.Text())
		if using, found := strings.CutPrefix(lines.Text(), "using "); found {
			var server Server
			_, err := fmt.Sscanf(using, "%s %s %s", &server.Kind, &server.url, &server.id)
			require.NoError(t, err)
			servers = append(servers, &server)
		}
	}
	require.Len(t, servers, n, "the child said:\n%s", &said)
	return servers
}

// assertRemoved checks that the server is neither a container, not even a
// stopped one, nor a process.
func assertRemoved(t *testing.T, server *Server) {
	t.Helper()
	switch server.Kind {
	case KindDocker:
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		engine, err := dockerEngine(ctx)
		require.NoError(t, err)
		defer func() { _ = engine.Close() }()
		_, err = engine.Client().ContainerInspect(ctx, server.id, client.ContainerInspectOptions{})
		assert.True(t, errdefs.IsNotFound(err), "container %s: want not found, got %v", server.id, err)
	case KindLocal:
		// In the child's words: its argument list holds the server's port.
		_, port, err := net.SplitHostPort(server.Addr())
		require.NoError(t, err)
		arguments, err := os.ReadFile("/proc/" + server.id + "/cmdline")
		assert.False(t, err == nil && strings.Contains(string(arguments), port), "process %s is still there: %q", server.id, arguments)
	default:
		t.Errorf("a server of kind %q has no end", server.Kind)
	}
}

package redisserver_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func TestMain(m *testing.M) {
	child.Main(child.Roles{starter: starterMain})
	os.Exit(m.Run())
}

// needRedis skips a test that needs a redis-server, where there is none and may be none.
func needRedis(t *testing.T) {
	t.Helper()
	if _, err := redisserver.Binary(); err != nil {
		require.NotContains(t, os.Getenv("FLEETPACE_REQUIRE"), "redis", "FLEETPACE_REQUIRE: %v", err)
		t.Skip(err)
	}
}

func TestAServerLeavesNothing(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := redisserver.Start()
	require.NoError(t, err)
	before, err := s.Work(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.Admin.Eval(t.Context(), "return 1", nil).Err())
	}
	after, err := s.Work(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 3, after.Less(before).Scripts, 0)

	s.Stop()
	_, err = net.Dial("tcp", s.Address)
	require.Error(t, err, "it has ended")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNoServerNoStart(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Start()
	require.ErrorIs(t, err, redisserver.ErrMissing)
}

// A program that is killed leaves no server behind.
func TestTheServerEndsWithTheProgram(t *testing.T) {
	needRedis(t)
	program := exec.CommandContext(t.Context(), os.Args[0], starter) //nolint:gosec // the test binary
	program.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	stdin, err := program.StdinPipe()
	require.NoError(t, err)
	stdout, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	_, err = stdin.Write([]byte("null\n"))
	require.NoError(t, err)
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, program.Process.Kill())
	require.Error(t, program.Wait())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.TrimSpace(address))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, time.Minute, 10*time.Millisecond)
}

const starter = "-starter"

func starterMain() error {
	s, err := redisserver.Start()
	if err != nil {
		return err
	}
	fmt.Println(s.Address)
	child.UntilStopped()
	s.Stop()
	return nil
}

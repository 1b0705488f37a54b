package child_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

const echo, quitter = "-echo", "-quitter"

func TestMain(m *testing.M) {
	child.Main(child.Roles{echo: echoMain, quitter: quitterMain})
	os.Exit(m.Run())
}

func echoMain() int {
	var setup string
	if err := child.Told(&setup); err != nil {
		return 1
	}
	fmt.Println(setup)
	child.UntilStopped()
	fmt.Println("stopped")
	return 0
}

func quitterMain() int {
	fmt.Fprintln(os.Stderr, "I quit")
	return 3
}

func TestAChildIsToldAndEndsWhenItIsStopped(t *testing.T) {
	p, err := child.Start(echo, "hello")
	require.NoError(t, err)
	stdout := bufio.NewReader(p.Stdout)
	line, err := stdout.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
	p.Stop()
	p.Stop()
	line, err = stdout.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "stopped\n", line)
	require.NoError(t, p.Wait())
	require.Empty(t, p.Said())
}

func TestAChildThatQuitsSaysWhy(t *testing.T) {
	p, err := child.Start(quitter, nil)
	require.NoError(t, err)
	require.ErrorContains(t, p.Wait(), "exit status 3")
	require.Equal(t, "I quit", p.Said())
	p.Stop()
	p.Kill()
}

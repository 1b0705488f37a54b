package child_test

import (
	"errors"
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

func echoMain() error {
	var told string
	for child.Told(&told) == nil {
		child.Tell(told)
	}
	child.Tell("stopped")
	return nil
}

func quitterMain() error { return errors.New("I quit") }

func TestAChildIsToldAndEndsWhenItIsStopped(t *testing.T) {
	p, err := child.Start(echo, "hello")
	require.NoError(t, err)
	for _, want := range []string{"hello", "again", "stopped"} {
		var said string
		require.NoError(t, p.Hear(&said))
		require.Equal(t, want, said)
		switch said {
		case "hello":
			p.Tell("again")
		case "again":
			p.Stop()
			p.Stop()
		}
	}
	require.NoError(t, p.Wait())
	require.Empty(t, p.Said())
}

func TestAChildThatQuitsSaysWhy(t *testing.T) {
	p, err := child.Start(quitter, nil)
	require.NoError(t, err)
	var said string
	err = p.Hear(&said)
	require.ErrorContains(t, err, "exit status 1")
	require.ErrorContains(t, err, "I quit")
	require.Equal(t, "I quit", p.Said())
	p.Stop()
	p.Kill()
}

func TestBusy(t *testing.T) {
	stop, err := child.Busy(true)
	require.NoError(t, err)
	stop()
	stop()
}

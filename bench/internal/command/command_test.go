package command_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/command"
)

func parse(args []string, _ io.Writer) (fail bool, err error) {
	fs := command.NewFlags("test", "It works.\n", io.Discard)
	fs.BoolVar(&fail, "fail", false, "or not")
	return fail, command.Parse(fs, args)
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{"": 0, "-h": 0, "-fail": 1, "-what": 2, "what": 2} {
		got := command.Run("test", strings.Fields(args), parse, func(_ context.Context, fail bool) error {
			if fail {
				return errors.New("it failed")
			}
			return nil
		})
		require.Equal(t, want, got, args)
	}
}

func TestCtrlCEndsTheContext(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	got := command.Run("test", nil, parse, func(ctx context.Context, _ bool) error {
		require.NoError(t, self.Signal(os.Interrupt))
		<-ctx.Done()
		return ctx.Err()
	})
	require.Equal(t, 130, got)
}

func TestUsageComesBeforeTheFlags(t *testing.T) {
	var out strings.Builder
	fs := command.NewFlags("test", "It works.\n", &out)
	fs.Int("n", 1, "so many")
	require.Error(t, command.Parse(fs, []string{"-h"}))
	require.Regexp(t, `(?s)^It works\.\n  -n int\n.*so many`, out.String())
	require.EqualError(t, command.Parse(fs, []string{"more"}), `argument "more" is not understood: everything is a flag, see -h`)
}

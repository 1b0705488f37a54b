package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// Every command that looks says which process has a limit of another kind than the one in force, and
// what to do.
func TestAnotherKindIsTold(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server)
		s.works(s.limiter("api", "100/s"))
		s.known("api")
		other, err := reserve.New(server.Client(t), reserve.Config{
			Name: "api", Prefix: s.prefix, Limit: reserve.Rolling(5, time.Second), Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Close() })
		require.ErrorIs(t, other.Wait(t.Context()), reserve.ErrInvalid)
		s.works(other)

		host, err := os.Hostname()
		require.NoError(t, err)
		told := fmt.Sprintf("Calls of %s, process %d fail since ", host, os.Getpid())
		for _, command := range [][]string{{"ls"}, {"why", "api"}} {
			out := s.does(command...)
			require.Contains(t, out, told, command)
			require.Contains(t, out, "it is configured with 5/s rolling, and 100/s is in force, which is of another kind.\n", command)
		}
		require.Contains(t, s.does("why"), "\n       Stop the processes whose calls fail,")
		require.Contains(t, s.does("why", "api"), "\nStop the processes whose calls fail, or undo their deploy. To have their kind, stop all others. Use one kind in all processes, or Config.LimitOf if only some keys have another. Two limits of an API need two names.\nWho uses which: fleetpace show api\n")
		out := s.does("show", "api")
		require.Contains(t, out, fmt.Sprintf("ANOTHER KIND OF LIMIT: 5/s rolling, of process %d on %s; its calls fail since ", os.Getpid(), host))
		require.Contains(t, out, "ago, its calls fail")

		_, out, _ = s.command("", "doctor")
		require.Contains(t, out, "problem  fleet: api: "+told)
		require.NotContains(t, out, "slowest")

		code, out, _ := s.command("", "why", "api", "-o", "json", "--exit-code")
		require.Equal(t, exitMustAct, code)
		var answer fleet.Answer
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		require.Equal(t, fleet.WhyKind, answer.Reason)
		var lines []fleet.Line
		require.NoError(t, json.Unmarshal([]byte(s.does("ls", "-o", "json")), &lines))
		require.Equal(t, 1, lines[0].Failing)
		require.Equal(t, 2, lines[0].Processes, "a process whose calls fail lives, too")
		var look fleet.Survey
		require.NoError(t, json.Unmarshal([]byte(s.does("show", "api", "-o", "json")), &look))
		require.Len(t, look.Unfit(), 1)
	})
}

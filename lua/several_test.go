package lua

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Random histories of calls that need permits of several limits, of all kinds, some of
// which others use alone: a strict provider of each refuses none, and each call has its turn.
func TestSeveralHistories(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		n := uint64(60)
		if server.Real() {
			n = 300
		}
		if text := os.Getenv("FLEETPACE_SEVERAL_HISTORIES"); text != "" {
			var err error
			n, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
		}
		client := patient(t, server)
		scripts := severalOf(line, several)
		calls, settled := 0, 0
		for seed := range n {
			h := newSeveralHistory(t, seed, scripts, client)
			h.play()
			if err := h.check(); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, strings.Join(h.log, "\n"))
			}
			if t.Failed() && !testing.Verbose() {
				return
			}
			for _, m := range h.limits {
				calls += len(m.calls)
				client.Del(t.Context(), m.keys...)
			}
			if h.settles {
				settled++
			}
		}
		t.Logf("%d histories, %d with costs that were settled, %d calls under a limit, none refused", n, settled, calls)
	})
}

package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// Close waits as long as a batch is unanswered. So there is one whenever the process can not be signed off yet, and
// none when all that were sent have their outcomes, whatever these are.
func TestCloseWaitsForAnswersAlone(t *testing.T) {
	outcomes := map[string]error{
		"away":    fmt.Errorf("%w: gone", fault.ErrUnavailable),
		"denied":  fmt.Errorf("%w: NOPERM", fault.ErrDenied),
		"invalid": fault.ErrInvalid,
	}
	for name, outcome := range outcomes {
		for _, early := range []bool{false, true} { // some have failed when the process is closed
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				now := time.Unix(1_000_000, 0)
				e := New(Config{Process: "me", Dead: 3 * time.Second, Failures: 3, Probe: time.Second, Random: func() float64 { return 0.5 },
					Errors: Errors{Closed: errors.New("closed"), Away: errors.New("away")}})
				beats := scripts.BeatKeys("t", "", "api")
				limit := wire.NewLimit(wire.Terms{Kind: "p", A: 1e6, B: 1}, scripts.Keys("t", "", "api", "p", ""),
					&wire.Name{Life: beats[:2], Keys: beats[2:], Kind: "p", Pace: 1, Limit: "1/s"})
				var out []*Batch
				step := func() {
					var r Ready
					e.Ready(now, &r)
					out = append(out, r.Send...)
				}
				fail := func() {
					b := out[0]
					out = out[1:]
					if e.Failed(now, b, outcome); b.Over() {
						e.Free(b)
					}
					step()
				}
				e.Join(now, NewCall(Need{Part: Part{limit, 1}}))
				step()
				require.NotEmpty(t, out)
				if early {
					fail()
				}
				e.Close(now)
				step()
				for range 20 {
					done := e.SignOff(now)
					step()
					if done {
						require.Empty(t, out)
						return
					}
					require.True(t, e.Unanswered(), "nobody would tell Close")
					for len(out) > 0 {
						fail()
					}
					require.False(t, e.Unanswered(), "Close would wait for ever")
				}
				t.Error("it is not signed off")
			})
		}
	}
}

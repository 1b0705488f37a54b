package lua

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A hard stop is a pause whose replies say so. One call may probe it in each stretch of time, also if the clock has
// stepped back. It stays where a longer pause comes. Where a process of an earlier version has written another
// reason, it is a pause. Scripts and model agree.
func TestHardStops(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for kind, limit := range map[string]queuemodel.Limit{
			"p": {Kind: "p", A: 1e5, B: 3}, "r": {Kind: "r", A: 3, B: 1e6}, "w": {Kind: "w", A: 1e5, B: 1e6}, "s": {Kind: "s", A: 2, B: 1},
		} {
			t.Run(kind, func(t *testing.T) {
				client := server.Client(t)
				s, who, _ := backlog(t, client, limit, 0)
				s.keys = Keys(redistest.Prefix(t), "", "api", kind, "")
				model := queuemodel.New()
				limits := []queuemodel.Limit{limit}
				at := func(seconds float64) {
					who.Now, who.Serial = startMicros+seconds*1e6, who.Serial+1
				}
				text := func(heads []queuemodel.Head, err error) string {
					require.NoError(t, err)
					_, stop, _ := strings.Cut(heads[0].Text, "@")
					return stop
				}
				stop := func(seconds, every float64) string {
					at(seconds)
					heads, left, err := s.Pause(who, limits, 3600e6, every)
					modelHeads, modelLeft := model.Pause(who, limits, 3600e6, every)
					require.Equal(t, modelLeft, left)
					require.Equal(t, text(modelHeads, nil), text(heads, err))
					return text(heads, nil)
				}
				probe := func(seconds float64) float64 {
					at(seconds)
					heads, answer, err := s.Probe(who, limits, 300e6)
					modelHeads, modelAnswer := model.Probe(who, limits, 300e6)
					require.Equal(t, text(modelHeads, nil), text(heads, err))
					require.Equal(t, modelAnswer, answer)
					return answer
				}
				require.Zero(t, probe(0), "it is not stopped")
				require.Empty(t, stop(1, 0), "a pause")
				require.Zero(t, probe(2))
				require.Equal(t, "stop hard stop 1700000303000000 told so", stop(3, 300e6))
				require.EqualValues(t, 2, probe(4))
				first := probe(303)
				require.EqualValues(t, startMicros+3603e6, first)
				require.EqualValues(t, 2, probe(304))
				require.EqualValues(t, 2, probe(602))
				require.Equal(t, "stop hard stop 1700000603000000 told so", stop(603, 0), "a longer pause")
				require.EqualValues(t, startMicros+4203e6, probe(603.5))
				require.Equal(t, "stop hard stop 1700000904000000 told so", stop(604, 300e6), "it is stopped again")
				resume := func(seconds float64, stop ...float64) string {
					at(seconds)
					heads, err := s.Resume(who, limits, stop...)
					require.Equal(t, text(model.Resume(who, limits, stop...), nil), text(heads, err))
					return text(heads, err)
				}
				require.NotEmpty(t, resume(604.5, first), "a probe of an earlier stop is served")
				require.Empty(t, resume(906, probe(905)))
				require.Zero(t, probe(907))
				require.NotEmpty(t, stop(908, 300e6))
				first = probe(1209)
				require.NotEmpty(t, stop(1210, 300e6), "a late refusal")
				require.Empty(t, resume(1211, first), "the probe is served")
				require.NotEmpty(t, stop(1212, 300e6))
				require.NoError(t, client.HSet(t.Context(), s.keys[0], "reason", "of an earlier version").Err())
				at(1213)
				heads, answer, err := s.Probe(who, limits, 300e6)
				require.Empty(t, text(heads, err))
				require.Zero(t, answer)
				_, left, err := s.Pause(who, limits, 1, 0)
				require.NoError(t, err)
				require.Greater(t, left, 3590e6, "the pause stays")
			})
		}
	})
}

// A call does not probe a stop while another one of its limits is in a plain pause, whatever its reason says.
func TestHardStopsArePausedToo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		limit := queuemodel.Limit{Kind: "p", A: 1e5, B: 3}
		s, who, _ := backlog(t, server.Client(t), limit, 0)
		stopped, paused := Keys(redistest.Prefix(t), "", "stopped", "p", ""), Keys(redistest.Prefix(t), "", "paused", "p", "")
		both, one := []queuemodel.Limit{limit, limit}, []queuemodel.Limit{limit}
		at := func(seconds float64) { who.Now, who.Serial = startMicros+seconds*1e6, who.Serial+1 }
		pauses := func(reason string) {
			s.keys = paused
			r := s.run("pause", Pause, one, append(headArgs(who, one), "10000000", reason))
			require.NoError(t, r.err)
			require.NotContains(t, r.heads(1, who.Now)[0].Text, "@stop", reason)
		}
		probe := func(seconds float64) float64 {
			at(seconds)
			s.keys = append(slices.Clone(stopped), paused...)
			_, answer, err := s.Probe(who, both, 300e6)
			require.NoError(t, err)
			return answer
		}
		at(1)
		s.keys = stopped
		_, _, err := s.Pause(who, one, 36000e6, 300e6)
		require.NoError(t, err)
		require.EqualValues(t, 2, probe(2))
		require.Greater(t, probe(302), 2.0)
		for i, reason := range []string{"an operator", "hard stop 2", "hard stop 2 - credits", "hard stop -2 - credits"} {
			start := 1000 * float64(i+1)
			at(start)
			pauses(reason)
			require.EqualValues(t, 2, probe(start+1), reason)
			require.Greater(t, probe(start+11), 2.0, "the pause is over")
		}
	})
}

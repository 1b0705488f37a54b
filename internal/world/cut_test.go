package world

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A large history is cut down to what it needs to fail.
func TestCut(t *testing.T) {
	p := draw(3)
	p.processes = append(p.processes, p.processes[0], p.processes[0])
	p.loads = append(p.loads, load{callers: 40, process: 1, parts: []part{{cost: 1}}})
	p.events = append(p.events,
		event{at: time.Second, what: kill, process: 1}, event{at: time.Second, what: flush, process: anybody}, event{at: time.Second, what: newsCut, process: 0})
	before := p.String()
	smaller := cut(p, 1000, func(p *plan) bool {
		callers := 0
		for _, l := range p.loads {
			callers += l.callers
		}
		return p.has(flush) && callers >= 10
	})
	require.Equal(t, before, p.String(), "the history itself stays as it is")
	require.Len(t, smaller.events, 1)
	require.Len(t, smaller.processes, 1)
	require.Len(t, smaller.loads, 1)
	require.Less(t, smaller.loads[0].callers, 20)
}

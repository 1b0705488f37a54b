package meter

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

const policyKey = attribute.Key("fleetpace.policy")

// Standing is how a limit stands in this process right now.
type Standing struct {
	Waiting int64 // calls
	Slots   int64 // that calls hold

	away map[string]int64 // by policy: 1 where Redis is away
}

// Source tells how limits stand.
type Source struct {
	Policy string // that calls follow while Redis is away
	// Read adds to what of returns for each limit, and reports whether Redis is away.
	Read func(of func(*Limit) *Standing) (away bool)
}

// sources are those that are open.
var sources = struct {
	sync.Mutex
	open map[*Source]bool
}{open: map[*Source]bool{}}

// Open lets a Source be read, until Close.
func (s *Source) Open() {
	sources.Lock()
	defer sources.Unlock()
	sources.open[s] = true
}

// Close ends that.
func (s *Source) Close() {
	sources.Lock()
	defer sources.Unlock()
	delete(sources.open, s)
}

// standing adds up how all limits stand.
func standing() map[*Limit]*Standing {
	sources.Lock()
	defer sources.Unlock()
	all := map[*Limit]*Standing{}
	for s := range sources.open {
		mine := map[*Limit]bool{}
		away := s.Read(func(l *Limit) *Standing {
			mine[l] = true
			if all[l] == nil {
				all[l] = &Standing{away: map[string]int64{}}
			}
			return all[l]
		})
		for l := range mine {
			if standing := all[l]; away {
				standing.away[s.Policy] = 1
			} else {
				standing.away[s.Policy] = max(standing.away[s.Policy], 0) // told as 0, too
			}
		}
	}
	return all
}

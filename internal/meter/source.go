package meter

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

const policyKey = attribute.Key("fleetpace.policy")

// Standing is the state of a limit in this process now.
type Standing struct {
	Waiting int64 // waiting calls
	Slots   int64 // slots that calls hold

	away map[string]int64 // by policy: 1 if Redis is unreachable
}

// Source reports the states of limits.
type Source struct {
	Policy string // the policy that calls follow while Redis is unreachable
	// Read adds to the Standing of each limit, and reports whether Redis is unreachable.
	Read func(of func(*Limit) *Standing) (away bool)
}

// sources are the open sources.
var sources = struct {
	sync.Mutex
	open map[*Source]bool
}{open: map[*Source]bool{}}

// Open makes collectors read a Source, until Close.
func (s *Source) Open() {
	sources.Lock()
	defer sources.Unlock()
	sources.open[s] = true
}

// Close ends what Open began.
func (s *Source) Close() {
	sources.Lock()
	defer sources.Unlock()
	delete(sources.open, s)
}

// standing adds up the states of all limits.
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
				standing.away[s.Policy] = max(standing.away[s.Policy], 0) // reported also if it is 0
			}
		}
	}
	return all
}

package fleet

import "time"

// Rates compute the calls per second between two readings. The zero value is ready to use. Rates
// are not safe for concurrent use.
type Rates struct {
	seen map[usage]sight
}

// usage is a key of a name in one process.
type usage struct {
	name    Name
	process string
	key     string
}

// sight is what a process has reported of a key, and when.
type sight struct {
	calls, permits int64
	at             time.Time
	rate           Rate
}

// Rate is how much is used per second.
type Rate struct{ Calls, Permits float64 }

// ByKey returns the rates of each key. It returns none the first time.
func (r *Rates) ByKey(s *Survey) map[string]Rate {
	if r.seen == nil {
		r.seen = map[usage]sight{}
	}
	rates := map[string]Rate{}
	for i := range s.Processes {
		p := &s.Processes[i]
		if !p.Alive {
			continue
		}
		told := s.at.Add(-time.Duration(p.Silent * float64(time.Second)))
		for _, u := range p.Report.Used {
			of := usage{s.Name, p.ID, u.Key}
			last, known := r.seen[of]
			if !known {
				r.seen[of] = sight{calls: u.Calls, permits: u.Permits, at: told}
				continue
			}
			if passed := told.Sub(last.at); passed > beatLeast { // a new report
				last = sight{u.Calls, u.Permits, told, Rate{float64(u.Calls-last.calls) / passed.Seconds(), float64(u.Permits-last.permits) / passed.Seconds()}}
				r.seen[of] = last
			}
			sum := rates[u.Key]
			rates[u.Key] = Rate{sum.Calls + last.rate.Calls, sum.Permits + last.rate.Permits}
		}
	}
	return rates
}

// beatLeast is less than the time between two heartbeats.
const beatLeast = 500 * time.Millisecond

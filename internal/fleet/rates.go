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
	rated          bool // there is a rate
}

// Rate is how much is used per second.
type Rate struct {
	Calls, Permits float64 // since the report before the last one
	Steady         float64 // permits: the mean over about ten reports
}

// add adds the rate of another process.
func (r Rate) add(other Rate) Rate {
	return Rate{r.Calls + other.Calls, r.Permits + other.Permits, r.Steady + other.Steady}
}

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
				rate := Rate{Calls: float64(u.Calls-last.calls) / passed.Seconds(), Permits: float64(u.Permits-last.permits) / passed.Seconds()}
				if rate.Steady = rate.Permits; last.rated {
					rate.Steady = last.rate.Steady + (rate.Permits-last.rate.Steady)*min(1, passed.Seconds()/steadily.Seconds())
				}
				last = sight{u.Calls, u.Permits, told, rate, true}
				r.seen[of] = last
			}
			rates[u.Key] = rates[u.Key].add(last.rate)
		}
	}
	return rates
}

// beatLeast is less than the time between two heartbeats.
const beatLeast = 500 * time.Millisecond

// steadily is how long Rate.Steady remembers.
const steadily = 12 * time.Second

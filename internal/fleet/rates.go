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
	calls int64
	at    time.Time
	rate  float64
}

// Total returns the calls per second of a limit, with all its keys. It returns 0 the first time.
func (r *Rates) Total(s *Survey) (perSecond float64) {
	for _, rate := range r.ByKey(s) {
		perSecond += rate
	}
	return perSecond
}

// ByKey returns the calls per second of each key.
func (r *Rates) ByKey(s *Survey) map[string]float64 {
	if r.seen == nil {
		r.seen = map[usage]sight{}
	}
	rates := map[string]float64{}
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
				r.seen[of] = sight{calls: u.Calls, at: told}
				continue
			}
			if passed := told.Sub(last.at); passed > beatLeast { // a new report
				last = sight{u.Calls, told, float64(u.Calls-last.calls) / passed.Seconds()}
				r.seen[of] = last
			}
			rates[u.Key] += last.rate
		}
	}
	return rates
}

// beatLeast is less than the time between two heartbeats.
const beatLeast = 500 * time.Millisecond

package fleet

import "time"

// Rates are how many calls per second were made between two looks. The zero Rates have seen
// nothing. They are not safe for concurrent use.
type Rates struct {
	seen map[usage]sight
}

// usage is a key of a name in one process.
type usage struct {
	name    Name
	process string
	key     string
}

// sight is what the process had used, and when that was told.
type sight struct {
	calls int64
	at    time.Time
	rate  float64
}

// Of are the calls per second of a name. They are 0 as it is seen first.
func (r *Rates) Of(s *Survey) (perSecond float64) {
	for _, rate := range r.ByKey(s) {
		perSecond += rate
	}
	return perSecond
}

// ByKey are those of each key.
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
			if passed := told.Sub(last.at); passed > beatLeast { // another report
				last = sight{u.Calls, told, float64(u.Calls-last.calls) / passed.Seconds()}
				r.seen[of] = last
			}
			rates[u.Key] += last.rate
		}
	}
	return rates
}

// beatLeast is less than what lies between two heartbeats.
const beatLeast = 500 * time.Millisecond

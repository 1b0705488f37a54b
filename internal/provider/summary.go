package provider

import "time"

// Summary is a history in a few numbers. Requests counts all calls, accepted and refused. First and
// Last are when the first and the last of them arrived; they are zero without calls.
type Summary struct {
	Requests, Refused int
	First, Last       time.Time
}

// Summary returns the summary of the calls so far.
func (p *Provider) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Summary{Requests: len(p.history)}
	for _, c := range p.history {
		if c.Refused {
			s.Refused++
		}
	}
	if s.Requests > 0 {
		s.First, s.Last = p.history[0].At, p.history[s.Requests-1].At
	}
	return s
}

// Utilization is how much of a limit was used, for calls that cost one permit each: (requests -
// burst) / (perSecond * seconds from first to last request). The burst is subtracted because it is
// available in addition to the rate. The result is 0 if no time passed between the first and the
// last request.
func (s Summary) Utilization(perSecond float64, burst int) float64 {
	seconds := s.Last.Sub(s.First).Seconds()
	if seconds <= 0 || !(perSecond > 0) {
		return 0
	}
	return float64(s.Requests-burst) / (perSecond * seconds)
}

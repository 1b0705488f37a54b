package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// old is the protocol of v0.2, whose processes write the moment of their last heartbeat under each name.
const old = 2

// listProtocols finds the protocols that living processes speak, in what the heartbeats have written.
func (s *Survey) listProtocols(beats, limits map[string]string, clock time.Time) {
	lives := func(text string) bool {
		micros, err := strconv.ParseInt(text, 10, 64)
		ago := clock.Sub(time.UnixMicro(micros))
		return err == nil && ago.Abs() < silent
	}
	s.Protocols = []int{}
	for field, text := range beats {
		if number, err := strconv.Atoi(strings.TrimPrefix(field, "protocol ")); err == nil && lives(text) {
			s.Protocols = append(s.Protocols, number)
		}
	}
	if lives(limits[" beat"]) {
		s.Protocols = append(s.Protocols, old)
	}
	slices.Sort(s.Protocols)
}

// hasOld reports whether processes of v0.2 live.
func (s *Survey) hasOld() bool { return slices.Contains(s.Protocols, old) }

// Foreign returns the protocol of living processes beside which a process cannot work, or 0.
func (s *Survey) Foreign(p *Process) int {
	for _, number := range s.Protocols {
		if p.Report.Protocol > old && (number == old || number < p.Report.Protocol-1 || number > p.Report.Protocol+1) {
			return number
		}
	}
	return 0
}

// speaking lists the living processes of a limit that speak a protocol.
func (l *Look) speaking(protocol int) string {
	var texts []string
	for i := range l.Processes {
		if p := &l.Processes[i]; p.Alive && p.Report.Protocol == protocol {
			texts = append(texts, l.Process(p.ID))
		}
	}
	if n := len(texts) - mostUnfit; n > 0 {
		texts = append(texts[:mostUnfit], fmt.Sprintf("and %d more", n))
	}
	if len(texts) == 0 && l.Group != "" {
		return "see the other limits of the group"
	}
	return strings.Join(texts, "; ")
}

// version is the name of a protocol for people.
func version(protocol int) string {
	if protocol == old {
		return "fleetpace v0.2"
	}
	return fmt.Sprintf("protocol %d", protocol)
}

// protocols says which protocols the processes speak.
func (l *Look) protocols() (texts []string) {
	for i, number := range l.Protocols {
		switch last := len(l.Protocols) - 1; {
		case last == 0 && l.Living() == 0:
		case last == 0:
			texts = append(texts, fmt.Sprintf("all living processes speak protocol %d", number))
		case number == old: // calls of the others fail
		case i < last:
			text := fmt.Sprintf("what protocol %d has added is off until the processes of protocol %d are gone", l.Protocols[last], number)
			if who := l.speaking(number); who != "" {
				text += ": " + who
			}
			texts = append(texts, text)
		}
	}
	return texts
}

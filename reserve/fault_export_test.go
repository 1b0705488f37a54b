package reserve

import (
	"hash/fnv"
	"math"
	"time"
)

// SetMember names the process of a limiter, which is random otherwise, and lets
// its pauses follow from the name and the moment, so that it does not matter in
// which order round trips of the same moment ask for theirs.
func (l *Limiter) SetMember(name string) {
	l.core.member = name
	l.core.jitter = func() float64 {
		h := fnv.New64a()
		_, _ = h.Write(time.Now().AppendFormat([]byte(name), time.RFC3339Nano))
		return float64(h.Sum64()) / math.MaxUint64
	}
	l.core.gate = newGate(l.core.cfg, l.core.jitter)
}

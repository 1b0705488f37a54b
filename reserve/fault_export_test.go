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
	l.SetJitter(func() float64 {
		h := fnv.New64a()
		_, _ = h.Write(time.Now().AppendFormat([]byte(name), time.RFC3339Nano))
		return float64(h.Sum64()) / math.MaxUint64
	})
}

// SetJitter replaces the random source, from 0 up to 1, of a limiter's pauses.
func (l *Limiter) SetJitter(jitter func() float64) {
	l.core.jitter, l.core.gate = jitter, newBreaker(l.core.cfg, jitter)
}

// Processes is how many the process counts with.
func (l *Limiter) Processes() int64 {
	line := l.core.root
	line.mu.Lock()
	defer line.mu.Unlock()
	return line.memory.told
}

// TurnDeaf lets the Limiter not listen to the news, for networks on which nobody speaks
// unasked.
func (l *Limiter) TurnDeaf() { l.core.listening.Store(true) }

// UntilOld is the time until the first permits that a process has ahead go back.
func (l *Limiter) UntilOld() time.Duration {
	line := l.core.root
	line.mu.Lock()
	defer line.mu.Unlock()
	return time.Until(line.lease.blocks[0].given.Add(l.core.old()))
}

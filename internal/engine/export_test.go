package engine

import "time"

// Remembered is of how many limits the Process knows what happened to them.
func (p *Process) Remembered() (moves, rests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.engine.moves), len(p.engine.rests)
}

// All tests of the package check the engine after each step.
func init() {
	checked = func(e *Engine, now time.Time) {
		if err := e.check(now); err != nil {
			panic(err)
		}
	}
}

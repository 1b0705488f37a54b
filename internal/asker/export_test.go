package asker

// Remembered is of how many limits the Asker knows what happened to them.
func (a *Asker) Remembered() (moves, still int) {
	a.lock()
	defer a.mu.Unlock()
	return len(a.moves), len(a.still)
}

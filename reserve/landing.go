package reserve

import "context"

// A claim that is under way can not be called back, and an id that is not known
// gets a new number. So what is to be done with the number of a call that left
// waits until its claim has landed.

// unpin takes out the ticket of a call that leaves, unless its turn came; false
// when it is being claimed right now. Then its fate is decided when that is done.
func (l *line) unpin(w *waiter, unused bool) bool {
	t := w.own
	if !t.out {
		w.queue.remove(t)
		return true
	}
	t.left, t.unused = true, unused
	if l.landings == nil {
		l.landings = make(map[string]chan struct{})
	}
	if l.landings[t.id] == nil {
		l.landings[t.id] = make(chan struct{})
	}
	return false
}

// landed tells those who wait for it that a ticket is not being claimed any more.
func (l *line) landed(t *ticket) {
	if landing := l.landings[t.id]; landing != nil {
		close(landing)
		delete(l.landings, t.id)
	}
}

// settle returns when no claim is under way for an id whose call has left.
func (c *core) settle(ctx context.Context, key, id string) error {
	c.mu.Lock()
	l := c.lines[key]
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	landing := l.landings[id]
	l.mu.Unlock()
	if landing == nil {
		return nil
	}
	select {
	case <-landing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

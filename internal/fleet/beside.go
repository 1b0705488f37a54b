package fleet

import (
	"context"
	"fmt"
	"strings"
)

// Beside adds to an answer which limits of the same group are stopped: calls that also need one of them fail. Processes
// do not report which limits a call needs. Explain leaves this out, because all limits of the group are read for it.
func (r *Reader) Beside(ctx context.Context, n Name, a *Answer) error {
	if n.Group == "" || a.Reason == WhyStopped {
		return nil
	}
	names, err := r.Names(ctx)
	if err != nil {
		return err
	}
	var stopped []string
	for _, other := range names {
		if other.Group != n.Group || other == n {
			continue
		}
		look, err := r.look(ctx, other, 20, false)
		if err != nil { // the answer for that limit says so
			continue
		}
		for i := range look.Rows {
			if row := &look.Rows[i]; row.State.Stopped {
				stopped = append(stopped, (&Target{Name: other, Key: row.Key}).String())
			}
		}
	}
	if len(stopped) == 0 {
		return nil
	}
	command, are := r.Command("why", stopped[0]), "it is stopped"
	if len(stopped) > 1 {
		are = "these are stopped"
	}
	text := fmt.Sprintf("Calls that also need %s fail: %s.", plain(strings.Join(stopped, " or ")), are)
	if a.Severity != SeverityFine {
		a.Evidence = append(a.Evidence, text+" Run: "+command)
		return nil
	}
	a.Text += " " + text
	a.Do, a.Command = "Why:", command
	return nil
}

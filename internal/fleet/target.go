package fleet

import (
	"context"

	"github.com/fleetpace/fleetpace/reserve"
)

// Target is a limit, or a key of one, that somebody is about to change.
type Target struct {
	Name    Name
	Key     string
	Limit   reserve.Limit // that the processes were made with
	Limiter *reserve.Limiter
	Row     *Row
}

// String is the name, and the key behind a slash.
func (t *Target) String() string {
	if t.Key == "" {
		return t.Name.String()
	}
	return t.Name.String() + "/" + t.Key
}

// Target returns what a name and a key stand for. It needs none of the limit's own figures: what
// is in force says how to change it. known is the limit where no process has used it of late;
// empty: that is an error.
func (r *Reader) Target(ctx context.Context, n Name, key, known string) (*Target, error) {
	look, err := r.Look(ctx, n, 1, key)
	if err != nil {
		return nil, err
	}
	t := &Target{Name: n, Key: key, Row: &Row{}}
	if known != "" {
		t.Limit, err = reserve.ParseLimit(known)
	} else {
		t.Limit, err = look.InForce()
	}
	if err != nil {
		return nil, err
	}
	if len(look.Rows) > 0 {
		t.Row = &look.Rows[0]
	}
	if t.Limiter, err = r.Limiter(n, t.Limit); err == nil && key != "" {
		t.Limiter = t.Limiter.For(key)
	}
	return t, err
}

package fleet

import (
	"context"

	"github.com/fleetpace/fleetpace/reserve"
)

// Target is a limit, or one of its keys, that is about to be changed.
type Target struct {
	Name    Name
	Key     string
	Limit   reserve.Limit // the configured limit
	Limiter *reserve.Limiter
	Row     *Row

	reader *Reader
}

// String is the name, and the key after a slash.
func (t *Target) String() string {
	if t.Key == "" {
		return t.Name.String()
	}
	return t.Name.String() + "/" + t.Key
}

// Target returns the limit of a name and a key. It finds the configured limit in Redis. If no
// process has used the limit recently, `known` is used instead; if that is empty, the error says
// so.
func (r *Reader) Target(ctx context.Context, n Name, key, known string) (*Target, error) {
	look, err := r.Look(ctx, n, 1, key)
	if err != nil {
		return nil, err
	}
	t := &Target{Name: n, Key: key, Row: &Row{}, reader: r}
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

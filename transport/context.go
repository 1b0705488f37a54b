package transport

import (
	"context"
	"slices"

	"github.com/fleetpace/fleetpace/reserve"
)

// wishes are what the context of a request says about its turn.
type wishes struct {
	urgent bool
	flow   *string // nil: no wish
	cost   *int
}

type wishesKey struct{}

func wishesOf(ctx context.Context) wishes {
	w, _ := ctx.Value(wishesKey{}).(wishes)
	return w
}

// WithUrgent makes the requests of a context go ahead of all other waiting requests: see
// [reserve.Limiter.Urgent]. It is for code that calls an SDK and has no access to its requests.
func WithUrgent(ctx context.Context) context.Context {
	w := wishesOf(ctx)
	w.urgent = true
	return context.WithValue(ctx, wishesKey{}, w)
}

// WithFlow gives the requests of a context a flow, such as their tenant: see [reserve.Limiter.Flow].
// An invalid name makes the requests fail with [ErrInvalid].
func WithFlow(ctx context.Context, name string) context.Context {
	w := wishesOf(ctx)
	w.flow = &name
	return context.WithValue(ctx, wishesKey{}, w)
}

// WithCost makes each request of a context take so many permits of each limit, whatever [Need.Cost]
// says. A cost below 1 or above the burst makes the requests fail with [ErrInvalid]. A Need that
// has Costs keeps them.
func WithCost(ctx context.Context, permits int) context.Context {
	w := wishesOf(ctx)
	w.cost = &permits
	return context.WithValue(ctx, wishesKey{}, w)
}

// wished returns the turn of a request whose context has wishes.
func (t Need) wished(w wishes) (Need, error) {
	if w.cost != nil && t.Costs == nil {
		if *w.cost < 1 {
			return t, invalid("WithCost", "must be at least 1, got %d", *w.cost)
		}
		t.Cost = *w.cost
	}
	if !w.urgent && w.flow == nil {
		return t, nil
	}
	limits := slices.Clone(t.Limiter.Limits())
	for i, l := range limits {
		if w.flow != nil {
			l = l.Flow(*w.flow)
		}
		if w.urgent {
			l = l.Urgent()
		}
		limits[i] = l
	}
	joint, err := reserve.All(limits...)
	t.Limiter = joint
	return t, err
}

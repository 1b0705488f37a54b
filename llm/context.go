package llm

import "context"

// wishes are what a context says about its calls.
type wishes struct {
	urgent bool
	tenant *string // nil: none
	weight float64
	route  string
}

type wishesKey struct{}

func wishesOf(ctx context.Context) wishes {
	w, _ := ctx.Value(wishesKey{}).(wishes)
	return w
}

// Tenant makes the calls of a context calls of a tenant. Tenants that wait share the limits by their weights, counted
// in tokens: see [reserve.Limiter.Flow]. The name has 1 to 256 bytes, and a weight of 0
// means 1. Other names and weights make the calls fail with [ErrInvalid].
func Tenant(ctx context.Context, name string, weight float64) context.Context {
	w := wishesOf(ctx)
	if w.tenant, w.weight = &name, weight; weight == 0 {
		w.weight = 1
	}
	return context.WithValue(ctx, wishesKey{}, w)
}

// Urgent makes the calls of a context go ahead of all other waiting calls, because a person waits for them: see
// [reserve.Limiter.Urgent].
func Urgent(ctx context.Context) context.Context {
	w := wishesOf(ctx)
	w.urgent = true
	return context.WithValue(ctx, wishesKey{}, w)
}

// Route names the kind of the calls of a context, such as "summarize". The average use of a call is learned for each
// route, from its last 200 calls or so; a process keeps 1,000 routes. Default: the path of the request, without IDs.
func Route(ctx context.Context, name string) context.Context {
	w := wishesOf(ctx)
	w.route = name[:min(len(name), mostRoute)]
	return context.WithValue(ctx, wishesKey{}, w)
}

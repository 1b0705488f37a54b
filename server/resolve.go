package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// need is what a call needs.
type need struct {
	turns   *reserve.Joint
	call    call // as the request says it
	costs   []int
	slots   bool // it holds slots until they are released
	settles bool
	leased  bool // this process may have prefetched permits for it
}

// same reports whether another call needs the same limits at the same costs.
func (n *need) same(turns *reserve.Joint, costs []int) bool {
	return n.turns.String() == turns.String() && slices.Equal(n.costs, costs)
}

// resolve returns what a call needs. If it takes no turn, its flow may be missing.
func (s *Server) resolve(c *call, takes bool) (n need, err error) {
	if err := c.validate(); err != nil {
		return n, err
	}
	n.call = *c
	var limiters []*reserve.Limiter
	for i, p := range c.Limits {
		field := fmt.Sprintf("limits[%d]", i)
		l, about, err := s.limiter(field, p.Name, p.Key, cmp.Or(c.Flow, c.Share), takes)
		if err != nil {
			return n, err
		}
		cost := 1
		if p.Cost != nil {
			cost = int(*p.Cost)
		}
		if most := l.Limit().MaxBurst(); cost > most {
			return n, wrong(field+".cost", cost, fmt.Sprintf("must be at most %d, the burst of the limit, got %d", most, cost))
		}
		if c.Weight != nil {
			l = l.Weight(*c.Weight)
		}
		if c.Urgent {
			l = l.Urgent()
		}
		n.slots = n.slots || l.Limit().Kind() == reserve.KindSlots
		n.settles = n.settles || l.Settles()
		n.leased = len(c.Limits) == 1 && about.Prefetch > 0
		limiters, n.costs = append(limiters, l), append(n.costs, cost)
	}
	if n.turns, err = reserve.All(limiters...); err != nil {
		return n, problemOf(err, "limits")
	}
	return n, nil
}

// limiter returns a limit of the file, with the values that its key and its flow need.
func (s *Server) limiter(field, name string, key json.RawMessage, flow string, takes bool) (l *reserve.Limiter, about limits.About, err error) {
	if field != "" {
		field += "."
	}
	if about, err = s.limits.About(name); err != nil {
		return nil, about, problemOf(err, field+"name")
	}
	values, err := valuesOf(field+"key", about, key)
	if err != nil {
		return nil, about, err
	}
	switch unnamed := missing(about, values); {
	case len(unnamed) == 0:
	case !takes:
		values = named(values, "-", unnamed...)
	case flow == "" || len(unnamed) > 1:
		return nil, about, wrong("flow", flow, fmt.Sprintf("must be given, because %q has the flow %q; or give a value for each of %s in %skey", name, about.Flow, strings.Join(unnamed, ", "), field))
	default:
		values, flow = named(values, flow, unnamed...), ""
	}
	if l, err = s.limits.For(name, values); err != nil {
		return nil, about, problemOf(err, field+"key")
	}
	if flow != "" {
		l = l.Flow(flow)
	}
	return l, about, nil
}

// named returns the values with this value for each of the names.
func named(values map[string]string, value string, names ...string) map[string]string {
	values = maps.Clone(values)
	if values == nil {
		values = map[string]string{}
	}
	for _, name := range names {
		values[name] = value
	}
	return values
}

package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/fleetpace/fleetpace/reserve"
)

// need is what a request needs.
type need struct {
	turns    *reserve.Joint // nil: nothing
	costs    []int          // of each of its limits
	policies []string       // the same: their names
	of       []int          // the same: their indexes among all limits
}

// longestKey is what reserve.Limiter.For takes, in bytes.
const longestKey = 512

// errKey: it is not known whose request it is.
var errKey = errors.New("the request has no key")

// needOf says what a request needs: the limits that it has a cost of.
func (m *middleware) needOf(r *http.Request) (n need, err error) {
	costs := m.costsOf(r)
	if len(costs) != len(m.limits) {
		return n, fmt.Errorf("inbound: %w Config.Costs: must be one for each of the %d limits, got %d", reserve.ErrInvalid, len(m.limits), len(costs))
	}
	var limits []*reserve.Limiter
	for i, l := range m.limits {
		if costs[i] != 0 {
			limits, n.costs, n.policies = append(limits, l), append(n.costs, costs[i]), append(n.policies, m.config.Policies[i])
			n.of = append(n.of, i)
		}
	}
	if len(limits) == 0 {
		return n, nil
	}
	if m.config.Key != nil {
		key, err := m.keyOf(r)
		if err != nil {
			return n, err
		}
		for i, l := range limits {
			if slices.Contains(m.limits[:m.config.Keyed], l) {
				limits[i] = l.For(key)
			}
		}
	}
	n.turns, err = reserve.All(limits...)
	return n, err
}

// costsOf a request, of each limit.
func (m *middleware) costsOf(r *http.Request) []int {
	switch {
	case m.config.Costs != nil:
		return m.config.Costs(r)
	case m.config.Cost != nil:
		return slices.Repeat([]int{m.config.Cost(r)}, len(m.limits))
	}
	return slices.Repeat([]int{1}, len(m.limits))
}

// keyOf says whose request it is.
func (m *middleware) keyOf(r *http.Request) (string, error) {
	key, err := m.config.Key(r)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errKey, err)
	}
	if key == "" {
		return "", errKey
	}
	return bounded(key), nil
}

// bounded hashes a key that is too long, a token for example. Cut off, it would be
// that of everybody whose key begins alike. Somebody may send the hash as a key, but
// has to know the whole key for it.
func bounded(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

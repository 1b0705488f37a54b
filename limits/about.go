package limits

import (
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// About describes a limit of the file.
type About struct {
	// Name is the name of the limit, reserve.Config.Name.
	Name string

	// Limit is the limit of the file, reserve.Config.Limit.
	Limit reserve.Limit

	// Prefetch is reserve.Config.Prefetch. 0: its default counts.
	Prefetch time.Duration

	// Key and Flow are the templates. Empty: the limit has no key or flow.
	Key, Flow string

	// KeyNames and FlowNames are the names in the templates, for which [Set.For] needs values.
	KeyNames, FlowNames []string

	// Lease is the earlier name of Prefetch.
	//
	// Deprecated: use Prefetch.
	Lease time.Duration

	// Share and ShareNames are the earlier names of Flow and FlowNames.
	//
	// Deprecated: use Flow and FlowNames.
	Share      string
	ShareNames []string
}

// About describes the limit of a name. The error is an [ErrUnknown].
func (s *Set) About(name string) (About, error) {
	limit, err := s.find(s.table.Load(), name)
	if err != nil {
		return About{}, err
	}
	return About{
		Name: name, Limit: limit.limiter.Limit(), Prefetch: limit.settings.prefetch, Lease: limit.settings.prefetch,
		Key: limit.key.text, KeyNames: limit.key.names(),
		Flow: limit.flows.flow.text, FlowNames: limit.flows.flow.names(),
		Share: limit.flows.flow.text, ShareNames: limit.flows.flow.names(),
	}, nil
}

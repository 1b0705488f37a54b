package limits

import (
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// About is what the file says of a limit.
type About struct {
	// Name is the limit's own, reserve.Config.Name.
	Name string

	// Limit is what the file allows, reserve.Config.Limit.
	Limit reserve.Limit

	// Lease is reserve.Config.Lease. 0: turns are not taken ahead.
	Lease time.Duration

	// Key and Share are the templates, empty where there is none.
	Key, Share string

	// KeyNames and ShareNames are the names in the templates: those for which [Set.For] needs
	// values.
	KeyNames, ShareNames []string
}

// About returns what the file says of the limit of a name. The error is an [ErrUnknown].
func (s *Set) About(name string) (About, error) {
	limit, err := s.find(s.table.Load(), name)
	if err != nil {
		return About{}, err
	}
	return About{
		Name: name, Limit: limit.limiter.Limit(), Lease: limit.settings.lease,
		Key: limit.key.text, KeyNames: limit.key.names(),
		Share: limit.shares.flow.text, ShareNames: limit.shares.flow.names(),
	}, nil
}

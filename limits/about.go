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

	// Lease is reserve.Config.Prefetch. 0: its default counts.
	Lease time.Duration

	// Key and Share are the templates. Empty: the limit has no key or share.
	Key, Share string

	// KeyNames and ShareNames are the names in the templates, for which [Set.For] needs values.
	KeyNames, ShareNames []string
}

// About describes the limit of a name. The error is an [ErrUnknown].
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

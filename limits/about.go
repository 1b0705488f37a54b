package limits

import (
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// About is what the file says of a limit.
type About struct {
	Name  string
	Limit reserve.Limit

	// Lease is reserve.Config.Lease; 0: turns are not taken ahead.
	Lease time.Duration

	// Key and Share are the templates, empty where there is none, and KeyNames and ShareNames
	// the names in them: those that [Set.For] wants values for.
	Key, Share           string
	KeyNames, ShareNames []string
}

// About tells of a limit. The error is an [ErrUnknown].
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

package limits

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// settings are what one limit of a file makes of a reserve.Config. Two of them that are
// equal need one limiter.
type settings struct {
	name       string
	group      string
	limit      reserve.Limit
	settles    bool
	prefetch   time.Duration
	maxWaiting int
	maxPause   time.Duration
	outage     reserve.Policy
	planned    bool // there are plans: the limits of keys come from the file
}

// unsaid are the settings of a limit that says nothing.
func unsaid(defaults reserve.Config) settings {
	return settings{
		group:   defaults.Group,
		settles: defaults.Settles,
		//lint:ignore SA1019 users of the earlier name may set it
		prefetch:   cmp.Or(defaults.Prefetch, defaults.Lease),
		maxWaiting: defaults.MaxWaiting,
		maxPause:   defaults.MaxPause,
		outage:     defaults.Outage.Policy,
	}
}

// config returns what the limiter is made of.
func (s settings) config(defaults reserve.Config) reserve.Config {
	config := defaults
	config.Name, config.Group, config.Limit = s.name, s.group, s.limit
	config.Settles, config.Prefetch, config.MaxPause, config.MaxWaiting = s.settles, s.prefetch, s.maxPause, s.maxWaiting
	//lint:ignore SA1019 users of the earlier name may set it
	config.Outage.Policy, config.Lease = s.outage, 0 // the file replaces the earlier name, too
	return config
}

func (s settings) limiter(client redis.UniversalClient, defaults reserve.Config, limitOf func(string) (reserve.Limit, int64)) (*reserve.Limiter, error) {
	config := s.config(defaults)
	if s.planned {
		config.LimitOf = limitOf
	}
	return reserve.New(client, config)
}

// validate makes no limiter, as metrics have each limit for which there was one.
func (s settings) validate(client redis.UniversalClient, defaults reserve.Config) error {
	return s.config(defaults).Validate(client)
}

// String is the limit and what else is not as reserve has it, for the log.
func (s settings) String() string {
	text := s.limit.String()
	if s.group != "" {
		text += ", group " + s.group
	}
	if s.settles {
		text += ", settles"
	}
	if s.prefetch != 0 {
		text += fmt.Sprintf(", prefetch %v", s.prefetch)
	}
	if s.maxWaiting != 0 {
		text += fmt.Sprintf(", max-waiting %d", s.maxWaiting)
	}
	if s.maxPause != 0 {
		text += fmt.Sprintf(", max-pause %v", s.maxPause)
	}
	if s.outage != "" {
		text += fmt.Sprintf(", outage %s", s.outage)
	}
	return text
}

// validateDefaults checks what is given for all limits, so that it is not told of each.
func validateDefaults(client redis.UniversalClient, defaults reserve.Config) error {
	if defaults.Name != "" || defaults.Limit != (reserve.Limit{}) {
		return fmt.Errorf("limits: %w defaults: Name and Limit must not be set, as the file has them", ErrInvalid)
	}
	if defaults.LimitOf != nil {
		return fmt.Errorf("limits: %w defaults: LimitOf must not be set: write plans into the file", ErrInvalid)
	}
	s := unsaid(defaults)
	s.name, s.limit = "defaults", reserve.PerSecond(1)
	config := s.config(defaults)
	//lint:ignore SA1019 users of the earlier name may set it
	config.Lease = defaults.Lease
	if err := config.Validate(client); err != nil {
		return fmt.Errorf("limits: %w defaults: %w", ErrInvalid, err)
	}
	return nil
}

// reason is what reserve says of a value, without the name that it has there.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "reserve: ")
	if said, ok := strings.CutPrefix(text, reserve.ErrInvalid.Error()+" "); ok {
		if _, after, ok := strings.Cut(said, ": "); ok {
			return after
		}
	}
	return text
}

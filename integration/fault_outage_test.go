package integration

import "github.com/fleetpace/fleetpace/reserve"

// setPolicy names what the limiter does while Redis is away.
func setPolicy(config *reserve.Config, name string) (err error) {
	config.Outage.Policy, err = reserve.ParsePolicy(name)
	return err
}

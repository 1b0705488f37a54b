package integration

import "github.com/fleetpace/fleetpace/reserve"

// setPolicy sets the outage policy of this name.
func setPolicy(config *reserve.Config, name string) (err error) {
	config.Outage.Policy, err = reserve.ParsePolicy(name)
	return err
}

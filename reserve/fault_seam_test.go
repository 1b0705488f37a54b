package reserve_test

import (
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Where the scripts have what the book reads.
const (
	memberArg   = 6 // the name of the process
	takeArgs    = 9 // arguments before the first request
	claimArgs   = 9
	cancelArgs  = 8
	replyHeader = lua.HeadLength

	quickEpoch  = 4 // of the first line
	quickMember = 5
	quickSerial = 7
)

const policies = true

func withPolicy(c reserve.Config, policy string) reserve.Config {
	c.Outage.Policy = reserve.Policy(policy)
	return c
}

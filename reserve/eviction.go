package reserve

import (
	"context"
	"strings"
)

// warnOfEviction asks Redis once whether it may throw out the state of a limit
// when it is full, and logs a warning if so. Where Redis does not say, or does
// not let this user ask, it is silent.
func (c *core) warnOfEviction(ctx context.Context) {
	memory, err := c.client.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	policy, limited := evicts(memory)
	if !limited || policy == "noeviction" {
		return
	}
	c.cfg.Logger.Warn("fleetpace: Redis may throw out the line of a limit when it is full, and calls may come"+
		" too fast then; set maxmemory-policy to noeviction, or give the limits a Redis of their own",
		"limit", c.cfg.Name, "maxmemory-policy", policy)
}

// evicts reads the reply of INFO memory: the policy, and whether there is a
// bound of memory, without which it does nothing.
func evicts(memory string) (policy string, limited bool) {
	for line := range strings.Lines(memory) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch field {
		case "maxmemory":
			limited = value != "0"
		case "maxmemory_policy":
			policy = value
		}
	}
	return policy, limited && policy != ""
}

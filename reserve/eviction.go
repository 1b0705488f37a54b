package reserve

import (
	"context"
	"log/slog"
	"strings"
)

// lookForEviction asks Redis whether it may evict state, if there is a Logger.
func (s *shared) lookForEviction() {
	if s.first.Logger.Enabled(s.life, slog.LevelWarn) {
		s.busy.Go(func() { s.warnOfEviction(s.life) })
	}
}

// warnOfEviction asks Redis whether it may evict the state of a limit, and logs a warning if so. If
// Redis does not say, or denies this user the question, it logs nothing.
func (s *shared) warnOfEviction(ctx context.Context) {
	memory, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	policy, limited := evicts(memory)
	if !limited || policy == "noeviction" {
		return
	}
	s.first.Logger.Warn("fleetpace: Redis may evict the state of limits when its memory is full, and calls may then exceed the limit;"+
		" set maxmemory-policy to noeviction, or use a separate Redis for the limits",
		"limit", s.first.Name, "maxmemory-policy", policy)
}

// evicts reads the reply of INFO memory: the eviction policy, and whether memory is limited.
// Without a memory limit the policy has no effect.
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

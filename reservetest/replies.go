package reservetest

import (
	"context"
	"errors"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// replies is a client hook that loses the replies of scripts.
type replies struct{ server *Server }

// DialHook does nothing.
func (replies) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does nothing.
func (replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook sends a command, and may lose its reply.
func (r replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		carriedOut := err == nil || errors.Is(err, redis.Nil)
		if !carriedOut || !isCall(cmd) || !r.server.loses() {
			return err
		}
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

// isCall reports whether a command is a script other than a heartbeat.
func isCall(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "eval", "eval_ro", "evalsha", "evalsha_ro":
		script, _ := cmd.Args()[1].(string)
		return script != lua.Beat.Hash() && redis.NewScript(script).Hash() != lua.Beat.Hash()
	}
	return false
}

func (s *Server) loses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose == 0 {
		return false
	}
	s.lose--
	return true
}

package wire

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	scripts "github.com/fleetpace/fleetpace/lua"
)

// once makes the call once, with the arguments of evalsha for so many keys. A copy that nobody knows of
// would spend permits that nobody uses, so the client must not repeat it by itself.
func (c *Call) once(ctx context.Context, script *redis.Script, args []any, keys int) ([]any, error) {
	first := 3 + keys // of the arguments of the script itself
	if c.reads && c.Limits[0].Name.observed.Load() {
		if read, may := c.readOnly(ctx, script, texts(args[3:first]), args[first:]); may {
			return outcome(ctx, c.Client, read)
		}
		c.Limits[0].Name.observed.Store(false) // its rights are others
	}
	cmd := process(ctx, c.Client, args) // script.Run would allocate each of them once more
	if cmd.Err() != nil && redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		switch script { // another server may have taken over
		case scripts.Ask:
			args[first+scripts.ArgRun] = AnyRun + strings.TrimPrefix(c.Run, AnyRun)
		case scripts.Take: // which gives no turns if the HORIZON is below 0
			c.Run = AnyRun + c.Run
			args[first+scripts.ArgHorizon] = -1
		}
		c.again()
		cmd = script.Eval(ctx, once{c.Client}, texts(args[3:first]), args[first:]...)
	}
	if c.reads && redis.HasErrorPrefix(cmd.Err(), "NOPERM") { // perhaps it may read: see lua.ACLObserver
		if read, may := c.readOnly(ctx, script, texts(args[3:first]), args[first:]); may {
			c.Limits[0].Name.observed.Store(true)
			cmd = read
		}
	}
	return outcome(ctx, c.Client, cmd)
}

// readOnly makes the call as one that changes nothing, and reports whether the user may do that
// and the server, from Redis 7 on, knows how.
func (c *Call) readOnly(ctx context.Context, script *redis.Script, keys []string, args []any) (*redis.Cmd, bool) {
	cmd := script.RunRO(ctx, c.Client, keys, args...)
	return cmd, !redis.HasErrorPrefix(cmd.Err(), "NOPERM") && !redis.HasErrorPrefix(cmd.Err(), "unknown command")
}

// texts are the arguments that are keys.
func texts(args []any) (texts []string) {
	for _, arg := range args {
		text, _ := arg.(string)
		texts = append(texts, text)
	}
	return texts
}

// run is the same for any script call.
func run(ctx context.Context, client redis.UniversalClient, script *redis.Script, keys []string, args []any) ([]any, error) {
	return outcome(ctx, client, script.Run(ctx, once{client}, keys, args...))
}

func outcome(ctx context.Context, client redis.UniversalClient, cmd *redis.Cmd) ([]any, error) {
	values, err := cmd.Slice()
	if err == nil {
		return values, nil
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx) // it does so itself only when it may repeat a call
	}
	return nil, fault.Classify(err)
}

func process(ctx context.Context, client redis.UniversalClient, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	_ = client.Process(ctx, onceCmd{cmd}) // the error is kept in the command
	return cmd
}

// once is a client that runs scripts without retries of its own.
type once struct{ redis.UniversalClient }

type onceCmd struct{ *redis.Cmd }

func (onceCmd) NoRetry() bool { return true }

func (c once) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "evalsha", sha, keys, args)
}

func (c once) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "eval", script, keys, args)
}

func (c once) eval(ctx context.Context, verb, script string, keys []string, args []any) *redis.Cmd {
	full := append(make([]any, 0, 3+len(keys)+len(args)), verb, script, len(keys))
	for _, k := range keys {
		full = append(full, k)
	}
	return process(ctx, c.UniversalClient, append(full, args...))
}

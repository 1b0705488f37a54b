package wire

import (
	"context"
	"strconv"
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

// Buffer is the memory for a Call and its reply. It is used by one call after the other: the call before
// must be over, and its reply must not be used any more.
type Buffer struct {
	args    args
	reader  reader
	heads   []head
	known   []string
	answers []Answers
}

// args are the arguments of one command. All of them are written into one array of bytes: a number or a
// text that becomes an interface by itself is an allocation each.
type args struct {
	all   []any
	spans []span
	bytes []byte
	terms []inForce // of each limit, as the arguments say
}

// span is an argument: a part of the bytes.
type span struct {
	of       *args
	from, to int
}

// MarshalBinary returns the argument; the client calls it.
func (s *span) MarshalBinary() ([]byte, error) { return s.of.bytes[s.from:s.to], nil }

// String returns the argument, for traces and errors.
func (s *span) String() string { return string(s.of.bytes[s.from:s.to]) }

// begin begins the arguments of a script call with some keys.
func (a *args) begin(script *redis.Script, keys int) {
	a.all, a.spans, a.bytes = append(a.all[:0], "evalsha", script.Hash(), keys), a.spans[:0], a.bytes[:0] // these are for hooks of clients
	a.terms = a.terms[:0]
}

// more adds n arguments that are set later, and returns the index of the first.
func (a *args) more(n int) (first int) {
	first = len(a.all)
	for range n {
		a.all = append(a.all, "")
	}
	return first
}

func (a *args) setText(i int, s string) {
	from := len(a.bytes)
	a.bytes = append(a.bytes, s...)
	a.set(i, from)
}

func (a *args) setNumber(i int, n int64) {
	from := len(a.bytes)
	a.bytes = strconv.AppendInt(a.bytes, n, 10)
	a.set(i, from)
}

// set sets an argument to the bytes from an index on. Spans that are copied to a larger array keep their
// values in the smaller one.
func (a *args) set(i, from int) {
	a.spans = append(a.spans, span{a, from, len(a.bytes)})
	a.all[i] = &a.spans[len(a.spans)-1]
}

func (a *args) text(s string)  { a.setText(a.more(1), s) }
func (a *args) number(n int64) { a.setNumber(a.more(1), n) }
func (a *args) flag(is bool) {
	if is {
		a.number(1)
	} else {
		a.number(0)
	}
}

func (a *args) float(x float64) { a.text(exact(x)) }

// joined adds an argument of several numbers and a text, with separators between them.
func (a *args) joined(separator byte, text string, numbers ...int64) {
	from := len(a.bytes)
	for _, n := range numbers {
		a.bytes = append(strconv.AppendInt(a.bytes, n, 10), separator)
	}
	a.bytes = append(a.bytes, text...)
	a.set(a.more(1), from)
}

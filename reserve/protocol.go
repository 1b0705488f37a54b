package reserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// request asks for one ticket; see take.lua.
type request struct {
	cost     int64
	id       string
	keep     bool
	deadline time.Time // zero: none
}

// answer is what take and claim say of one ticket.
type answer struct {
	status int64
	number int64
	wait   time.Duration
}

const (
	refused = 0
	final   = 1
	waiting = 2
)

// answers is the reply of take and claim.
type answers struct {
	epoch   int64
	reach   time.Duration // of the line: when its last number is due, from now
	tickets []answer
}

// nothingKnown is the reach of a line that the process knows nothing about:
// long enough ago for any bucket to be full.
const nothingKnown = -century

// noneFinal is a bound under which every ticket has to be claimed.
const noneFinal = -time.Microsecond

func (c *core) take(ctx context.Context, keys []string, reach, bound time.Duration, reqs []request) (answers, error) {
	now := time.Now()
	args := c.args(4+4*len(reqs), bound, reach)
	for _, r := range reqs {
		maxWait := int64(-1)
		if !r.deadline.IsZero() {
			maxWait = max(0, r.deadline.Sub(now).Microseconds())
		}
		args = append(args, r.cost, maxWait, r.id, r.keep)
	}
	reply, err := lua.Take.Run(ctx, c.client, keys, args...).Result()
	return decoded(reply, err, len(reqs))
}

func (c *core) claim(ctx context.Context, keys []string, reach, bound time.Duration, tickets []*ticket) (answers, error) {
	args := c.args(4+2*len(tickets), bound, reach)
	for _, t := range tickets {
		args = append(args, t.cost, t.id)
	}
	reply, err := lua.Claim.Run(ctx, c.client, keys, args...).Result()
	return decoded(reply, err, len(tickets))
}

// cancel reports for each ticket whether it went back. Tickets that Redis knows
// by number only are asked for once: a repeated call could give back a number
// that is somebody else's by then.
func (c *core) cancel(ctx context.Context, keys []string, tickets []*ticket) ([]bool, error) {
	args := c.args(2+4*len(tickets), 0, 0)[:2]
	once := false
	for _, t := range tickets {
		if t.final && !t.kept {
			once = true
			args = append(args, t.cost, "", t.epoch, t.number)
		} else {
			args = append(args, t.cost, t.id, 0, 0)
		}
	}
	scripter := redis.Scripter(c.client)
	if once {
		scripter = noRetry{c.client}
	}
	reply, err := lua.Cancel.Run(ctx, scripter, keys, args...).Result()
	if err != nil {
		return nil, classify(err)
	}
	return decodeCancel(reply, len(tickets))
}

// putBack lets a ticket that an ID has wait again, and reports whether it does.
func (c *core) putBack(ctx context.Context, keys []string, cost int64, id string) (bool, error) {
	const keepsPlace = 1
	args := append(c.args(6, 0, 0)[:2], cost, id, 0, keepsPlace)
	reply, err := lua.Cancel.Run(ctx, c.client, keys, args...).Result()
	if err != nil {
		return false, classify(err)
	}
	stays, err := decodeCancel(reply, 1)
	return err == nil && stays[0], err
}

// forget takes a final ticket off the list of those that can be asked for again.
func (c *core) forget(ctx context.Context, keys []string, t *ticket) error {
	member := strconv.FormatInt(t.cost, 10) + ":" + t.id
	if err := c.client.ZRem(ctx, keys[3], member).Err(); err != nil {
		return classify(err)
	}
	return nil
}

func (c *core) args(size int, bound, reach time.Duration) []any {
	args := make([]any, 0, size)
	return append(args, c.interval, c.cfg.Limit.MaxBurst(), bound.Microseconds(), reach.Microseconds())
}

// noRetry runs scripts without go-redis's own retries.
type noRetry struct{ redis.UniversalClient }

type noRetryCmd struct{ *redis.Cmd }

func (noRetryCmd) NoRetry() bool { return true }

func (c noRetry) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "evalsha", sha, keys, args)
}

func (c noRetry) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "eval", script, keys, args)
}

func (c noRetry) eval(ctx context.Context, verb, script string, keys []string, args []any) *redis.Cmd {
	full := append(make([]any, 0, 3+len(keys)+len(args)), verb, script, len(keys))
	for _, k := range keys {
		full = append(full, k)
	}
	cmd := redis.NewCmd(ctx, append(full, args...)...)
	cmd.SetFirstKeyPos(3)
	// The error is kept in the command, where Result finds it.
	_ = c.Process(ctx, noRetryCmd{cmd})
	return cmd
}

func decoded(reply any, err error, tickets int) (answers, error) {
	if err != nil {
		return answers{}, classify(err)
	}
	return decodeAnswers(reply, tickets)
}

// longest is the longest wait that a script may reply: a line of 100 years and
// a bucket of 100 more.
const longest = 2 * century

// decodeAnswers reads the reply of take and claim and trusts nothing in it.
func decodeAnswers(reply any, tickets int) (answers, error) {
	values, err := integers(reply, 2+3*tickets)
	if err != nil {
		return answers{}, err
	}
	reach, err := micros(values[1])
	if err != nil || values[0] < 0 {
		return answers{}, unreadable("epoch %d, reach %d", values[0], values[1])
	}
	a := answers{epoch: values[0], reach: reach, tickets: make([]answer, tickets)}
	for i := range a.tickets {
		v := values[2+3*i:]
		wait, err := micros(v[2])
		if err != nil || wait < 0 || v[0] < refused || v[0] > waiting || (v[0] == refused) != (v[1] == 0) || v[1] < 0 {
			return answers{}, unreadable("status %d, number %d, wait %d", v[0], v[1], v[2])
		}
		a.tickets[i] = answer{status: v[0], number: v[1], wait: wait}
	}
	return a, nil
}

func decodeCancel(reply any, tickets int) ([]bool, error) {
	values, err := integers(reply, tickets)
	if err != nil {
		return nil, err
	}
	went := make([]bool, tickets)
	for i, v := range values {
		if v != 0 && v != 1 {
			return nil, unreadable("%d where 0 or 1 was expected", v)
		}
		went[i] = v == 1
	}
	return went, nil
}

func integers(reply any, n int) ([]int64, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != n {
		return nil, unreadable("%T of length %d where a list of %d integers was expected", reply, len(list), n)
	}
	values := make([]int64, n)
	for i, v := range list {
		if values[i], ok = v.(int64); !ok {
			return nil, unreadable("%T at place %d where an integer was expected", v, i)
		}
	}
	return values, nil
}

func micros(v int64) (time.Duration, error) {
	if limit := longest.Microseconds(); v > limit || v < -limit {
		return 0, unreadable("%d microseconds", v)
	}
	return time.Duration(v) * time.Microsecond, nil
}

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: the script replied %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// classify joins an error of Redis or of the way to it with the sentinel that
// says what to do about it.
func classify(err error) error {
	var server redis.Error
	if errors.As(err, &server) {
		text := server.Error()
		switch code, _, _ := strings.Cut(text, " "); {
		case code == "BADARG":
			return fmt.Errorf("%w argument: %w", ErrInvalid, err)
		// Before 7.0, Redis wraps what a command inside a script replied.
		case code == "BADSTATE", strings.Contains(text, "WRONGTYPE"):
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if sent(err) {
		return fmt.Errorf("%w, %w: %w", ErrUnavailable, ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// sent reports whether the call may have reached Redis before it failed: always,
// unless it is known to have failed before.
func sent(err error) bool {
	var op *net.OpError
	dialing := errors.As(err, &op) && op.Op == "dial"
	return !dialing && !errors.Is(err, redis.ErrClosed) &&
		!errors.Is(err, redis.ErrPoolTimeout) && !errors.Is(err, redis.ErrPoolExhausted)
}

// decodeState reads the reply of inspect: pairs of name and value.
func decodeState(reply any) (map[string]float64, error) {
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, unreadable("%T of length %d where pairs were expected", reply, len(list))
	}
	values := make(map[string]float64, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name, ok := list[i].(string)
		if !ok {
			return nil, unreadable("%T at place %d where a name was expected", list[i], i)
		}
		switch v := list[i+1].(type) {
		case int64:
			values[name] = float64(v)
		case string:
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return nil, unreadable("%s %q where a number was expected", name, v)
			}
			values[name] = f
		default:
			return nil, unreadable("%s as %T where a number was expected", name, v)
		}
	}
	return values, nil
}

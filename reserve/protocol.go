package reserve

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/lua"
)

// request asks for one ticket; see take.lua.
type request struct {
	cost     int64
	id       string
	keep     bool      // it can be asked for again under its id when it is final
	named    bool      // the id is the caller's, who may ask again
	deadline time.Time // zero: none
}

// answer is what take and claim say of one ticket.
type answer struct {
	status int64
	number int64
	wait   time.Duration
	since  time.Duration // for at least so long its turn had been due already
	unsure time.Duration // and maybe for so much longer
}

const (
	refused = 0
	final   = 1
	waiting = 2
)

// head is what every reply of take, claim and charge begins with: the line as it
// is after the call.
type head struct {
	epoch  int64
	seen   int64         // Redis's time, in Unix microseconds
	reach  time.Duration // when the last final ticket is due, from now
	live   int64         // processes
	idle   int64         // permits that nobody used, so far
	resume time.Duration // nothing is due before; 0: no matter
	plain  bool          // the quick script will do
	pause  time.Duration // until a pause ends; 0: there is none
	gen    int64         // how often turns that were fixed have moved
	final  int64         // the number of which reach is
	terms
}

const headSize = lua.HeadLength

// answers is the reply of take, claim and charge.
type answers struct {
	head
	at      time.Time // when it arrived
	tickets []answer
}

// shortest is the shortest wait of a turn that is fixed; negative if there is none.
func (a answers) shortest() time.Duration {
	shortest := time.Duration(-1)
	for _, t := range a.tickets {
		if t.status == final && (shortest < 0 || t.wait < shortest) {
			shortest = t.wait
		}
	}
	return shortest
}

// overdue works out for how long turns had been due when they were given, which a wait
// of 0 does not tell: the last of the line was due at its reach, and each other at
// least as long before as it takes to get from its number to the last one's.
func (a answers) overdue(interval float64) {
	var last int64
	for _, t := range a.tickets {
		if t.status == final {
			last = max(last, t.number)
		}
	}
	for i, t := range a.tickets {
		if t.status == final && t.wait == 0 {
			ahead := float64(last-t.number) * interval * float64(time.Microsecond)
			a.tickets[i].since = max(0, time.Duration(min(ahead, float64(century)))-a.reach)
		}
	}
}

// noneFinal is a bound under which every ticket has to be claimed.
const noneFinal = -time.Microsecond

func (c *core) take(ctx context.Context, keys []string, who caller, bound time.Duration, reqs []request) (answers, error) {
	now := time.Now()
	args := append(c.args(who, 1+4*len(reqs)), bound.Microseconds())
	for _, r := range reqs {
		maxWait := int64(-1)
		if !r.deadline.IsZero() {
			maxWait = max(0, r.deadline.Sub(now).Microseconds())
		}
		args = append(args, r.cost, maxWait, r.id, r.keep)
	}
	return c.ask(ctx, lua.Take, keys, args, len(reqs))
}

func (c *core) claim(ctx context.Context, keys []string, who caller, bound time.Duration, tickets []*ticket) (answers, error) {
	args := append(c.args(who, 1+2*len(tickets)), bound.Microseconds())
	for _, t := range tickets {
		args = append(args, t.cost, t.id)
	}
	return c.ask(ctx, lua.Claim, keys, args, len(tickets))
}

// bill is what a process that comes back spent without the line; see charge.lua.
type bill struct {
	spent, least, most int64 // permits
	idle               int64
	away, grace        time.Duration
}

func (c *core) charge(ctx context.Context, keys []string, who caller, b bill) (answers, error) {
	args := append(c.args(who, 6), b.spent, b.least, b.idle, b.away.Microseconds(), b.grace.Microseconds(), b.most)
	return c.ask(ctx, lua.Charge, keys, args, 0)
}

// ask runs a script that replies with a head and some tickets.
func (c *core) ask(ctx context.Context, script *redis.Script, keys []string, args []any, tickets int) (answers, error) {
	sent := time.Now()
	reply, err := c.run(ctx, script, keys, args)
	if err != nil {
		return answers{}, err
	}
	a, err := decodeAnswers(reply, tickets)
	if err != nil {
		return answers{}, err
	}
	a.overdue(a.interval)
	var late time.Duration
	a.at, late = c.clock.arrival(a.seen, a.shortest(), sent, time.Now())
	for i := range a.tickets { // rather ask once more than call late, where nobody else can come first
		if c.slow(a.terms) && a.burst == 1 && a.tickets[i].number == a.final {
			a.tickets[i].unsure = late
		}
	}
	c.greet()
	return a, nil
}

// What becomes of a final ticket that is not used: it waits again under the number that it
// has, or it does so only if others stand behind it.
const (
	keepsPlace       = 1
	keepsPlaceBefore = 2
)

// cancel reports for each ticket whether it went back.
func (c *core) cancel(ctx context.Context, keys []string, who caller, tickets []*ticket) ([]bool, error) {
	args := c.args(who, 4*len(tickets))
	for _, t := range tickets {
		switch {
		case t.back:
			args = append(args, t.cost, t.id, t.epoch, keepsPlaceBefore)
		case t.final && !t.kept:
			args = append(args, t.cost, "", t.epoch, t.number)
		default:
			args = append(args, t.cost, t.id, t.epoch, 0)
		}
	}
	reply, err := c.run(ctx, lua.Cancel, keys, args)
	if err != nil {
		return nil, err
	}
	return decodeCancel(reply, len(tickets))
}

// putBack lets a ticket that an ID has wait again, and reports whether it does.
func (c *core) putBack(ctx context.Context, keys []string, who caller, cost int64, id string) (bool, error) {
	reply, err := c.run(ctx, lua.Cancel, keys, append(c.args(who, 4), cost, id, 0, keepsPlace))
	if err != nil {
		return false, err
	}
	stays, err := decodeCancel(reply, 1)
	return err == nil && stays[0], err
}

// forget takes a final ticket off the list of those that can be asked for again.
func (c *core) forget(ctx context.Context, keys []string, t *ticket) error {
	member := strconv.FormatInt(t.cost, 10) + ":" + t.id
	if err := c.client.ZRem(ctx, keys[3], member).Err(); err != nil {
		return fault.Classify(err)
	}
	return nil
}

// args are the limit and the caller, with room for more.
func (c *core) args(who caller, more int) []any {
	var reach any = who.reach.Microseconds()
	if later := who.later.Microseconds(); later > 0 {
		reach = fmt.Sprintf("%d+%d", reach, later)
	}
	return append(make([]any, 0, 8+more), c.limit[0], c.limit[1],
		reach, who.epoch, who.seen, who.clock, who.member, who.serial)
}

// run runs a script once. It is repeated by those who know under which number:
// go-redis would do so at a time of its own.
func (c *core) run(ctx context.Context, script *redis.Script, keys []string, args []any) (any, error) {
	reply, err := script.Run(ctx, noRetry{c.client}, keys, args...).Result()
	if err != nil {
		if cluster, ok := c.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // it does so itself only when it may retry
		}
		return nil, fault.Classify(err)
	}
	return reply, nil
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

// longest is the longest wait that a script may reply: a line of 100 years and
// a bucket of 100 more.
const longest = 2 * century

// decodeAnswers reads the reply of take, claim and charge and trusts nothing in it.
func decodeAnswers(reply any, tickets int) (answers, error) {
	values, err := integers(reply, headSize+3*tickets)
	if err != nil {
		return answers{}, err
	}
	reach, err := micros(values[2])
	if err != nil {
		return answers{}, err
	}
	resume, err := micros(values[5])
	if err != nil {
		return answers{}, err
	}
	pause, err := micros(values[7])
	if err != nil {
		return answers{}, err
	}
	for i, name := range [headSize]string{
		"epoch", "seenMicros", "", "live", "idle", "resumeMicros", "plain", "pauseMicros", "gen", "final",
		"interval", "fraction", "burst",
	} {
		if name != "" && values[i] < 0 {
			return answers{}, unreadable("%s %d", name, values[i])
		}
	}
	if values[10] < 1 || values[12] < 1 {
		return answers{}, unreadable("interval %d, burst %d", values[10], values[12])
	}
	a := answers{
		head: head{
			epoch: values[0], seen: values[1], reach: reach,
			live: values[3], idle: values[4], resume: resume, plain: values[6] == 1,
			pause: pause, gen: values[8], final: values[9],
			terms: terms{float64(values[10]) + float64(values[11])/1e9, values[12]},
		},
		tickets: make([]answer, tickets),
	}
	for i := range a.tickets {
		v := values[headSize+3*i:]
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

// reason is the one value of inspect's reply that is text.
const reason = "reason"

// reasonOf finds it.
func reasonOf(reply any) string {
	list, _ := reply.([]any)
	if i := slices.Index(list, any(reason)); i >= 0 && i+1 < len(list) {
		text, _ := list[i+1].(string)
		return text
	}
	return ""
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
		case string:
			if name == reason {
				continue
			}
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return nil, unreadable("%s %q where a number was expected", name, v)
			}
			values[name] = f
		case int64:
			values[name] = float64(v)
		default:
			return nil, unreadable("%s as %T where a number was expected", name, v)
		}
	}
	return values, nil
}

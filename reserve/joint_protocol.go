package reserve

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/lua"
)

// windowsWrong is the status of a turn for which the windows of a quota were not those of
// Redis's time.
const windowsWrong = 3

// windowsAhead is how many windows of a quota a call tells, from the one before on.
const windowsAhead = 8

// turn asks Redis for the turn of the call, in all limits.
func (g *guest) turn(ctx context.Context, lines []*line) error {
	c := g.joint.lead()
	var clock int64 // Redis's time, where it is known better
	for {
		now := time.Now()
		maxWait := int64(-1)
		if !g.deadline.IsZero() {
			maxWait = max(0, g.deadline.Sub(now).Microseconds())
		}
		keys, args, err := g.groups([]any{g.joint.bound().Microseconds(), maxWait, g.id}, lines, nil, clock)
		if err != nil {
			return err
		}
		reply, arrived, err := g.run(ctx, lua.Turn, keys, args)
		if err != nil {
			return err
		}
		head, err := integers(reply[:min(len(reply), 5)], 5)
		if err != nil {
			return err
		}
		if head[1] == windowsWrong {
			clock = head[0]
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		}
		wait, err := micros(head[2])
		if err != nil {
			return err
		}
		if head[1] < refused || head[1] > waiting || wait < 0 || head[3] < 0 || head[4] < 0 || head[4] > int64(len(lines)) {
			return unreadable("status %d, wait %d, slack %d, holder %d", head[1], head[2], head[3], head[4])
		}
		told := time.Duration(-1)
		if head[1] == final {
			told = wait
		}
		at, _ := c.clock.arrival(head[0], told, now, arrived)
		numbers, err := g.learn(lines, reply[5:], now, arrived, at)
		if err != nil {
			return err
		}
		return g.note(head, wait, at, numbers)
	}
}

// note takes in what a reply says of the turn.
func (g *guest) note(head []int64, wait time.Duration, at time.Time, numbers []ticket) error {
	var holder *Limiter
	if head[4] > 0 {
		holder = g.joint.limits[head[4]-1]
	}
	if head[1] == refused {
		g.mu.Lock()
		g.asked = false
		g.mu.Unlock()
		if holder != nil && wait >= century {
			return &exceeds{invalid("costs", "must be at most the burst of %q that was set for all, got %v", holder, g.costs)}
		}
		return &heldBackError{*miss(wait, g.deadline), holder}
	}
	slack := time.Duration(min(head[3], century.Microseconds())) * time.Microsecond
	for i := range numbers {
		numbers[i].final = head[1] == final
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = jointTurn{
		numbers: numbers,
		ticket:  ticket{given: at, due: at.Add(wait), slack: slack, final: head[1] == final},
		micros:  head[0] + wait.Microseconds(),
		holder:  holder,
	}
	return nil
}

// giveUp tells Redis that the call will not be made.
func (g *guest) giveUp(ctx context.Context, lines []*line) error {
	keys, args, err := g.groups([]any{g.id}, lines, nil, 0)
	if err != nil {
		return err
	}
	reply, _, err := g.run(ctx, lua.Leave, keys, args)
	if err == nil {
		_, err = decodeCancel(reply, len(lines))
	}
	return err
}

// tellCosts tells Redis what the call used.
func (g *guest) tellCosts(ctx context.Context, lines []*line, costs []int) error {
	keys, args, err := g.groups([]any{g.id}, lines, costs, 0)
	if err != nil {
		return err
	}
	sent := time.Now()
	reply, arrived, err := g.run(ctx, lua.Settle, keys, args)
	if err != nil {
		return err
	}
	_, err = g.learn(lines, reply, sent, arrived, arrived)
	return err
}

func (g *guest) run(ctx context.Context, script *redis.Script, keys []string, args []any) ([]any, time.Time, error) {
	c := g.joint.lead()
	reply, err := c.run(ctx, script, keys, args)
	if err != nil {
		return nil, time.Time{}, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, time.Time{}, unreadable("%T where a list was expected", reply)
	}
	if !g.joint.isClosing() { // a line is in use
		c.greet()
	}
	return list, time.Now(), nil
}

// groups are the keys, and the arguments behind those of the call.
func (g *guest) groups(args []any, lines []*line, spent []int, clock int64) ([]string, []any, error) {
	var keys []string
	for i, l := range lines {
		keys = append(keys, l.keys...)
		own, err := l.terse(clock)
		if err != nil {
			return nil, nil, err
		}
		actual, at := -1, int64(0)
		if g.settles {
			actual = 0
		}
		if spent != nil {
			actual, at = max(-1, spent[i]), g.view().micros
		}
		args = append(args, kindWords[l.core.cfg.Limit.kind], g.costs[i], actual, at, len(own))
		args = append(args, own...)
	}
	return keys, args, nil
}

// kindWords are what the scripts call the kinds.
var kindWords = map[Kind]string{
	KindPaced: "paced", KindWarmingUp: "warming", KindQuota: "quota", KindRolling: "rolling",
}

// terse is what scripts want to know of the limit, and of what this process knows of it.
func (l *line) terse(clock int64) ([]any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, now := l.core.cfg.Limit, time.Now()
	switch limit.kind {
	case KindQuota:
		if clock == 0 {
			clock = l.core.clock.at(now)
		}
		if clock == 0 {
			clock = now.UnixMicro()
		}
		windows, err := limit.windows(time.UnixMicro(clock))
		if err != nil {
			return nil, err
		}
		return append([]any{int64(limit.permits), limit.margin.Microseconds(), l.known}, windows...), nil
	case KindRolling:
		return []any{int64(limit.permits), (limit.per + limit.margin).Microseconds(), l.known}, nil
	case KindWarmingUp:
		return []any{l.core.limit[0], limit.warm.Microseconds(), l.known}, nil
	default:
		return l.core.args(l.caller(l.main(), 0), 0), nil
	}
}

// left is how many permits of a window were left as of the last reply; 0: not known.
func (l *line) left(now time.Time) int64 {
	words := strings.Fields(l.known)
	limit := l.core.cfg.Limit
	if len(words) < 3 {
		return 0
	}
	number := func(i int) int64 {
		x, _ := strconv.ParseInt(words[i], 10, 64)
		return x
	}
	switch limit.kind {
	case KindRolling:
		return max(0, int64(limit.permits)-number(2))
	case KindQuota:
		at := l.core.clock.at(now)
		if at == 0 {
			at = now.UnixMicro()
		}
		used := int64(0)
		for i := 2; i+1 < len(words); i += 2 {
			if number(i) <= at {
				used = number(i + 1)
			}
		}
		return max(0, int64(limit.permits)-used)
	}
	return 0
}

// windows are the moments at which windows of a quota begin, around one, in Unix
// microseconds.
func (l Limit) windows(at time.Time) ([]any, error) {
	zone, err := l.location()
	if err != nil {
		return nil, invalid("Limit", "time zone %q: %v", l.zone, err)
	}
	unit := calendar.Unit(l.unit)
	start, _ := unit.Window(at, zone)
	before, _ := unit.Window(start.Add(-1), zone)
	moments := []any{before.UnixMicro()}
	for range windowsAhead {
		moments = append(moments, start.UnixMicro())
		_, start = unit.Window(start, zone)
	}
	return moments, nil
}

// learn takes in what a reply says of the limits, and returns the numbers that the call has
// in those that are paced.
func (g *guest) learn(lines []*line, infos []any, sent, arrived, at time.Time) ([]ticket, error) {
	if len(infos) != len(lines) {
		return nil, unreadable("%d limits where %d were expected", len(infos), len(lines))
	}
	numbers := make([]ticket, len(lines))
	for i, l := range lines {
		info, ok := infos[i].([]any)
		if !ok || len(info) != 2 {
			return nil, unreadable("%v where a limit was expected", infos[i])
		}
		number, ok := info[0].(int64)
		if !ok || number < 0 {
			return nil, unreadable("%v where a number was expected", info[0])
		}
		if l.core.cfg.Limit.kind != KindPaced {
			known, ok := info[1].(string)
			if !ok {
				return nil, unreadable("%T where a text was expected", info[1])
			}
			l.mu.Lock()
			l.known, l.alone = known, nil
			l.mu.Unlock()
			continue
		}
		a, err := decodeAnswers(info[1], 0)
		if err != nil {
			return nil, err
		}
		a.at = at
		if l.core != g.joint.lead() {
			a.at, _ = l.core.clock.arrival(a.seen, -1, sent, arrived)
		}
		where := a.geometry()
		numbers[i] = ticket{number: number, cost: g.costs[i], epoch: a.epoch, gen: a.gen, due: where.due(number)}
		l.mu.Lock()
		l.learn(l.main(), 0, a)
		l.rides.plain = l.rides.plain && a.plain
		l.mu.Unlock()
	}
	return numbers, nil
}

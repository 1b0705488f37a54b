package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

// pace is a limit as scripts take it.
type pace struct {
	micros float64 // per permit
	burst  int
}

// line is one limit as a process sees it: what it has to bring to a script.
type line struct {
	keys   []string
	member string
	epoch  int64
	live   int64 // processes
	seen   int64 // by Redis's clock
	serial int64 // of the last call
	heard  time.Time
	took   time.Time // the last take
}

func newLine(prefix, name, key, member string) *line {
	return &line{keys: lua.Keys(prefix, name, key), member: member}
}

// clock is Redis's, as far as the process knows.
func (l *line) clock() int64 {
	if l.seen == 0 {
		return 0
	}
	return l.seen + time.Since(l.heard).Microseconds()
}

// begin is what take and claim begin with. How far it says that the line reached
// lets a new line begin with half a bucket: a full one would overflow at each call.
func (l *line) begin(p pace, more int) []any {
	reach := -int64(p.micros * float64(p.burst) / 2)
	return append(make([]any, 0, 9+more), p.micros, p.burst, reach, l.epoch, l.seen, l.clock(), l.member, l.serial)
}

// take asks for n numbers; those beyond bound wait under the ids that id makes.
func (l *line) take(ctx context.Context, client redis.Scripter, p pace, bound time.Duration, n int, id func(int) string) ([]int64, error) {
	l.serial++
	args := append(l.begin(p, 1+4*n), bound.Microseconds())
	for i := range n {
		args = append(args, 1, -1, id(i), 0)
	}
	return l.ask(ctx, client, lua.Take, args, n)
}

func (l *line) claim(ctx context.Context, client redis.Scripter, p pace, bound time.Duration, ids []string) ([]int64, error) {
	l.serial++
	args := append(l.begin(p, 1+2*len(ids)), bound.Microseconds())
	for _, id := range ids {
		args = append(args, 1, id)
	}
	return l.ask(ctx, client, lua.Claim, args, len(ids))
}

const headSize = lua.HeadLength

// ask returns three integers per request.
func (l *line) ask(ctx context.Context, client redis.Scripter, script *redis.Script, args []any, n int) ([]int64, error) {
	reply, err := script.Run(ctx, client, l.keys, args...).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != headSize+3*n {
		return nil, fmt.Errorf("a script replied %d integers: want %d", len(reply), headSize+3*n)
	}
	l.epoch, l.seen, l.live, l.heard = reply[0], reply[1], reply[3], time.Now()
	l.took = l.heard
	return reply[headSize:], nil
}

// quick asks for so many permits of each limit, and reports which of them gave any.
func quick(ctx context.Context, client redis.Scripter, p pace, slack time.Duration, lines []*line, permits []int) ([]bool, error) {
	const noExtra = 0
	keys := make([]string, len(lines))
	args := append(make([]any, 0, 4+6*len(lines)), p.micros, p.burst, lines[0].clock(), noExtra)
	serials := make([]int64, len(lines))
	for i, l := range lines {
		keys[i] = l.keys[0]
		known := strconv.FormatInt(l.seen, 10) + " " + strconv.FormatInt(l.serial, 10) + " "
		serials[i] = l.serial + 1
		args = append(args, fmt.Sprintf("%d %d", l.epoch, l.live), l.member, known, serials[i], permits[i], slack.Microseconds())
	}
	reply, err := lua.Quick.Run(ctx, client, keys, args...).Int64Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != 1+4*len(lines) {
		return nil, fmt.Errorf("quick replied %d integers: want %d", len(reply), 1+4*len(lines))
	}
	gave := make([]bool, len(lines))
	now := time.Now()
	for i, l := range lines {
		if gave[i] = reply[1+4*i] >= 0; gave[i] {
			l.seen, l.serial, l.heard = reply[0], serials[i], now
		}
	}
	return gave, nil
}

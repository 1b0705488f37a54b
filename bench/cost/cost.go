// Package cost measures what a call costs: one that finds permits available, so that what is left is
// the price of asking, and one that has to wait.
package cost

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// Usage explains the measurement and introduces its flags.
const Usage = `What a call costs: time per call of all callers together, commands that Redis gets per call, the time
of its scripts, turns that lapsed, and allocations.

Cases: 1, 64 and 4,096 callers of one process and limit; 1,000, 100 and 10,000 keys, each call another
one, by 1, 100 and 1,024 callers; 16 processes of 64 callers each. They find permits available. "waiting" are calls
that have to wait for an hour, one after the other, and "leaving" is that they give up, the last one first. Contenders
without a queue make ordinary calls instead.

Contenders take turns in short slices, in a random order, so that what else the machine does hits all alike.
Before each slice a contender asks for a quarter of its time to warm up, and so does the first round. Many callers
of one limit get longer slices: how much a process asks for ahead of them follows what they used. Each figure
is the median of the other rounds. "floor" is calls that go to sleep, one PING for all that came meanwhile, and
waking them. Times depend on the machine; compare the ratios.

To compare two commits in one run, build this program at the earlier one (go build -o /tmp/before .),
and name it with -before.

Flags:
`

// testcase is so many callers, in one process or in several, of one limit or of many.
type testcase struct {
	name                     string
	callers, keys, processes int
	do                       string
}

var cases = []testcase{
	{"1 caller", 1, 0, 1, waits},
	{"keys one by one", 1, 1000, 1, waits},
	{"64 callers", 64, 0, 1, waits},
	{"4,096 callers", 4096, 0, 1, waits},
	{"100 keys", 100, 100, 1, waits},
	{"10,000 keys", 1024, 10_000, 1, waits},
	{"16 processes", 64, 0, 16, waits},
	{"waiting", 1, 0, 1, places},
	{"leaving", 1, 0, 1, leaves},
}

// Figure is what was measured of a contender in a case, each number the median of the rounds.
type Figure struct {
	Case        string  `json:"case"`
	Contender   string  `json:"contender"`
	Nanos       float64 `json:"ns_per_call"`
	Ratio       float64 `json:"ratio_to_redis_rate"` // how many times as fast
	Commands    float64 `json:"redis_commands_per_call"`
	RedisMicros float64 `json:"redis_script_us_per_call"`
	RedisRatio  float64 `json:"script_ratio_to_redis_rate"` // how many times the time of its script
	Lapsed      float64 `json:"lapsed_turns_percent"`
	Allocs      float64 `json:"allocations_per_call"`
	Bytes       float64 `json:"bytes_per_call"`
}

// measured are the numbers of a figure that are not ratios.
func (f *Figure) measured() []*float64 {
	return []*float64{&f.Nanos, &f.Commands, &f.RedisMicros, &f.Lapsed, &f.Allocs, &f.Bytes}
}

type options struct {
	rounds              int
	slice               time.Duration
	only, before, chart string
	busy, json          bool
}

// Run measures all cases and prints them.
func Run(ctx context.Context, fs *flag.FlagSet, args []string, stdout io.Writer, stderr *os.File) error {
	var o options
	fs.IntVar(&o.rounds, "rounds", 5, "rounds that count")
	fs.DurationVar(&o.slice, "slice", 300*time.Millisecond, "how long each contender asks in a round")
	fs.StringVar(&o.only, "only", "", "cases and contenders whose names have one of these texts, with commas between")
	fs.StringVar(&o.before, "before", "", "a program like this one, built from another commit: its fleetpace takes part")
	fs.BoolVar(&o.busy, "busy", false, "beside a process per processor that never rests")
	fs.BoolVar(&o.json, "json", false, "a line of JSON per case and contender")
	fs.StringVar(&o.chart, "chart", "", "draw the time per call against the callers to this SVG file")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.slice < 10*time.Millisecond || fs.NArg() > 0 {
		return fmt.Errorf("want at least one of -rounds, a -slice of 10ms or more, and flags only, got %d, %v, %q", o.rounds, o.slice, fs.Args())
	}
	server, err := redisserver.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	stop, err := child.Busy(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	var all []Figure
	for _, c := range chosen(o.only, cases, func(c testcase) string { return c.name }) {
		figures, err := c.measure(ctx, o, server, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, figures...)
	}
	if o.chart != "" {
		if err := draw(o.chart, all); err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	if !o.json {
		return table(stdout, all, o.busy)
	}
	lines := json.NewEncoder(stdout)
	for _, f := range all {
		if err := lines.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// chosen are those whose names have one of the texts; all where none has.
func chosen[T any](texts string, all []T, name func(T) string) []T {
	some := slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		return !slices.ContainsFunc(strings.Split(texts, ","), func(text string) bool { return text != "" && strings.Contains(name(one), text) })
	})
	if len(some) == 0 {
		return all
	}
	return some
}

// player is a contender in a case.
type player struct {
	name    string
	local   bool
	crew    child.Crew
	figures []Figure
}

// players starts the contenders of a case, the earlier fleetpace among them.
func (c testcase) players(o options, server *redisserver.Server) (all []*player, err error) {
	for _, one := range chosen(o.only, contenders, func(c contender) string { return c.name }) {
		if one.local && (c.keys > 0 || c.processes > 1 || c.do != waits) {
			continue // it would need a map of limiters, knows one process only, and has no place to give up
		}
		if one.prefetches && c.keys > 0 {
			continue // it gives turns back a second later, and others would pay for that
		}
		names := []string{one.name}
		if o.before != "" && strings.HasPrefix(one.name, "fleetpace") {
			names = append(names, one.name+before)
		}
		for i, name := range names {
			s := setup{name, server.Address, "cost-" + crand.Text()[:8], c.callers, c.keys, c.do != waits}
			crew, err := child.StartCrew(c.processes, func() (*child.Process, error) {
				if i > 0 {
					return child.StartOther(s, o.before, MemberRole)
				}
				return child.Start(MemberRole, s)
			})
			if err != nil {
				end(all)
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, &player{name: name, local: one.local, crew: crew})
		}
	}
	return all, nil
}

func end(all []*player) {
	for _, p := range all {
		p.crew.Kill()
	}
}

// slicesPerRound cuts rounds of one caller finer: how long a sleeping processor takes to wake is
// another from second to second.
const slicesPerRound = 8

func (c testcase) measure(ctx context.Context, o options, server *redisserver.Server, stderr *os.File) ([]Figure, error) {
	if err := server.Admin.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	if c.callers == 1 && c.do == waits {
		o.rounds, o.slice = o.rounds*slicesPerRound, max(o.slice/slicesPerRound, 10*time.Millisecond)
	}
	if c.callers > 1 && c.keys == 0 { // what is taken ahead is at most a hundredth of what was used in the last seconds
		o.slice *= 4
	}
	players, err := c.players(o, server)
	if err != nil {
		return nil, err
	}
	defer end(players)
	bar := progress.New(stderr, c.name, (o.rounds+1)*len(players))
	defer bar.Close()
	for round := range o.rounds + 1 {
		for i, next := range rand.Perm(len(players)) {
			p := players[next]
			f, err := c.slice(ctx, p, o.slice, server)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 {
				p.figures = append(p.figures, f)
			}
			bar.Set(round*len(players) + i + 1)
		}
	}
	return c.medians(players), nil
}

// apart is how long after each other calls leave that are measured, so that none shares a script call:
// leaving is not waited for.
const apart = time.Millisecond

// slice lets a contender ask for a while, or lets calls wait and then leave.
func (c testcase) slice(ctx context.Context, p *player, d time.Duration, server *redisserver.Server) (f Figure, err error) {
	switch c.do {
	case waits:
		if _, err := p.do(order{Do: waits, For: d / 4}); err != nil {
			return f, err
		}
		return c.count(ctx, p, order{Do: waits, For: d}, server)
	case places:
		if f, err = c.count(ctx, p, order{Do: places}, server); err != nil {
			return f, err
		}
		_, err = p.do(order{Do: leaves})
		return f, err
	}
	if _, err := p.do(order{Do: places}); err != nil {
		return f, err
	}
	return c.count(ctx, p, order{Do: leaves, Apart: apart}, server)
}

// count lets a contender follow an order, and counts what that takes.
func (c testcase) count(ctx context.Context, p *player, o order, server *redisserver.Server) (f Figure, err error) {
	before, err := server.Work(ctx)
	if err != nil {
		return f, err
	}
	got, err := p.do(o)
	if err != nil {
		return f, err
	}
	after, err := server.Work(ctx)
	calls, work := float64(got.Calls), after.Less(before)
	f = Figure{Case: c.name, Contender: p.name, Nanos: float64(got.Elapsed) / calls, Lapsed: 100 * float64(got.Lapsed) / calls,
		Allocs: float64(got.Allocs) / calls, Bytes: float64(got.Bytes) / calls}
	if !p.local {
		f.Commands, f.RedisMicros = (work.Scripts+work.Pings)/calls, work.Micros/calls
	}
	return f, err
}

// do lets all processes of a contender follow an order, and adds up what they did.
func (p *player) do(o order) (all sample, err error) {
	for _, one := range p.crew {
		one.Tell(o)
	}
	for _, one := range p.crew {
		var got sample
		if err := one.Hear(&got); err != nil {
			return all, err
		}
		all.Calls, all.Lapsed, all.Elapsed = all.Calls+got.Calls, all.Lapsed+got.Lapsed, max(all.Elapsed, got.Elapsed)
		all.Allocs, all.Bytes = all.Allocs+got.Allocs, all.Bytes+got.Bytes
	}
	return all, nil
}

func (c testcase) medians(players []*player) (all []Figure) {
	var of Figure
	for _, p := range players {
		f := Figure{Case: c.name, Contender: p.name}
		for i, median := range f.measured() {
			var values []float64
			for round := range p.figures {
				values = append(values, *p.figures[round].measured()[i])
			}
			slices.Sort(values)
			*median = values[len(values)/2]
		}
		if f.Contender == base {
			of = f
		}
		all = append(all, f)
	}
	for i := range all {
		if of.Case != "" {
			all[i].Ratio, all[i].RedisRatio = of.Nanos/all[i].Nanos, all[i].RedisMicros/of.RedisMicros
		}
	}
	return all
}

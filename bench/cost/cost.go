// Package cost measures what a call costs that finds permits available: nobody waits for the limit,
// so what is left is the price of asking.
package cost

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
	"github.com/fleetpace/fleetpace/internal/progress"
)

const usage = `What a call costs where permits are available: time per call of all callers together,
commands that Redis gets per call, time of its scripts, and allocations.

Contenders take turns in short slices, so that what else the machine does hits all alike. The first
round is to warm up; each figure is the median of the others. "floor" is calls that go to sleep, one
PING for all that came meanwhile, and waking them. Times depend on the machine; compare the ratios.

Flags:
`

// testcase is so many callers, in one process or in several, of one limit or of many.
type testcase struct {
	name                     string
	callers, keys, processes int
}

var cases = []testcase{
	{"1 caller", 1, 0, 1},
	{"64 callers", 64, 0, 1},
	{"4,096 callers", 4096, 0, 1},
	{"10,000 keys", 1024, 10_000, 1},
	{"16 processes", 64, 0, 16},
}

// Figure is what was measured of a contender in a case, each number the median of the rounds.
type Figure struct {
	Case        string  `json:"case"`
	Contender   string  `json:"contender"`
	Nanos       float64 `json:"ns_per_call"`
	Ratio       float64 `json:"ratio_to_redis_rate"` // how many times as fast
	Commands    float64 `json:"redis_commands_per_call"`
	RedisMicros float64 `json:"redis_script_us_per_call"`
	Allocs      float64 `json:"allocations_per_call"`
}

type options struct {
	rounds int
	slice  time.Duration
	only   string
	json   bool
	chart  string
}

// Run measures all cases and prints them.
func Run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	var o options
	fs := flag.NewFlagSet("cost", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usage); fs.PrintDefaults() }
	fs.IntVar(&o.rounds, "rounds", 5, "rounds that count")
	fs.DurationVar(&o.slice, "slice", 300*time.Millisecond, "how long each contender asks in a round")
	fs.StringVar(&o.only, "only", "", "cases and contenders whose names have one of these texts, with commas between")
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
	var all []Figure
	for _, c := range chosen(o.only, cases, func(c testcase) string { return c.name }) {
		figures, err := c.measure(ctx, o, server, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, figures...)
	}
	if o.chart != "" {
		if err := os.WriteFile(o.chart, picture(all), 0o644); err != nil { //nolint:gosec // a picture is for all
			return fmt.Errorf("-chart: %w", err)
		}
	}
	if o.json {
		lines := json.NewEncoder(stdout)
		for _, f := range all {
			if err := lines.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
	return table(stdout, all)
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
	contender
	ask
	name    string // of its limit
	figures []Figure
}

// slicesPerRound cuts rounds of one caller finer: how long a sleeping processor takes to wake is
// another from second to second.
const slicesPerRound = 8

func (c testcase) measure(ctx context.Context, o options, server *redisserver.Server, stderr *os.File) ([]Figure, error) {
	admin := server.Client()
	defer func() { _ = admin.Close() }()
	if err := admin.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	if c.callers == 1 {
		o.rounds, o.slice = o.rounds*slicesPerRound, max(o.slice/slicesPerRound, 10*time.Millisecond)
	}
	var players []*player
	for _, one := range chosen(o.only, contenders, func(c contender) string { return c.name }) {
		if one.local && (c.keys > 0 || c.processes > 1) {
			continue // it would need a map of limiters, and knows one process only
		}
		p := &player{contender: one, name: "cost-" + rand.Text()[:8]}
		players = append(players, p)
		if c.processes > 1 {
			continue // each opens its own
		}
		client := newClient(server.Address)
		defer func() { _ = client.Close() }()
		asks, end, err := one.open(client, p.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		defer end()
		if p.ask = asks; !one.local {
			if err := warm(ctx, client, asks, c.keys); err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	bar := progress.New(stderr, c.name, (o.rounds+1)*len(players))
	defer bar.Close()
	for round := range o.rounds + 1 {
		for i := range players {
			p := players[(round+i)%len(players)]
			f, err := c.slice(ctx, p, o.slice, server, admin)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				return nil, fmt.Errorf("%s: %w", p.contender.name, err)
			}
			if round > 0 {
				p.figures = append(p.figures, f)
			}
			bar.Set(round*len(players) + i + 1)
		}
	}
	return c.medians(players), nil
}

// slice lets a contender ask for a while.
func (c testcase) slice(ctx context.Context, p *player, d time.Duration, server *redisserver.Server, admin *redis.Client) (f Figure, err error) {
	before, err := server.Work(ctx, admin)
	if err != nil {
		return f, err
	}
	var got sample
	if c.processes > 1 {
		got, err = together(c.processes, setup{p.contender.name, server.Address, p.name, c.callers, d})
	} else {
		got, err = loop(ctx, p.ask, c.callers, c.keys, d)
	}
	if err != nil {
		return f, err
	}
	after, err := server.Work(ctx, admin)
	calls, work := float64(got.Calls), after.Less(before)
	f = Figure{Case: c.name, Contender: p.contender.name, Nanos: float64(got.Elapsed) / calls, Allocs: float64(got.Allocs) / calls}
	if !p.local {
		f.Commands, f.RedisMicros = (work.Scripts+work.Pings)/calls, work.Micros/calls
	}
	return f, err
}

func (c testcase) medians(players []*player) (all []Figure) {
	var of float64
	for _, p := range players {
		median := func(value func(Figure) float64) float64 {
			var values []float64
			for _, f := range p.figures {
				values = append(values, value(f))
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		f := Figure{
			Case: c.name, Contender: p.contender.name,
			Nanos:       median(func(f Figure) float64 { return f.Nanos }),
			Commands:    median(func(f Figure) float64 { return f.Commands }),
			RedisMicros: median(func(f Figure) float64 { return f.RedisMicros }),
			Allocs:      median(func(f Figure) float64 { return f.Allocs }),
		}
		if f.Contender == base {
			of = f.Nanos
		}
		all = append(all, f)
	}
	for i := range all {
		all[i].Ratio = of / all[i].Nanos
	}
	return all
}

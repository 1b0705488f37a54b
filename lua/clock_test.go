package lua

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// sources are the texts of the scripts. Tests that plant bugs change a copy.
type sources struct{ line, take, claim, cancel, charge, inspect, quick, pause, resume, set string }

func trueSources() sources {
	return sources{line, take, claim, cancel, charge, inspect, quick, pause, resume, set}
}

// clockDriver runs the scripts as they are, but on a clock of the test's. See
// the comments in the file.
//
//go:embed testdata/clock.lua
var clockDriver string

// driver puts the sources into the clock driver.
func (s sources) driver() *redis.Script {
	return redis.NewScript(strings.NewReplacer(
		"--[[take]]", s.line+s.take,
		"--[[claim]]", s.line+s.claim,
		"--[[cancel]]", s.line+s.cancel,
		"--[[charge]]", s.line+s.charge,
		"--[[inspect]]", s.line+s.inspect,
		"--[[quick]]", s.quick,
		"--[[pause]]", s.line+s.pause,
		"--[[resume]]", s.line+s.resume,
		"--[[set]]", s.line+s.set,
	).Replace(clockDriver))
}

// step is one call of a script at a moment on the test's clock, in micros. The
// verb "lose" deletes the keys, "dump" notes what they hold and "rollback" brings
// that back, and "state" returns it.
type step struct {
	verb string
	at   int64
	args []string
}

// outcome is what a step led to.
type outcome struct {
	reply any // the script's reply; an error where it replied with one
	// expiresMillis says when the state expires, on the test's clock: 0 when it
	// is not there, -1 when it never does. For the last step of a run the other
	// three keys follow.
	expiresMillis []int64
}

// stage is one line in a Redis, with a clock of its own. Not safe for
// concurrent use.
type stage struct {
	client *redis.Client
	script *redis.Script
	keys   []string // those of the scripts, then those of the driver
}

// newStage makes a stage whose keys nobody else uses.
func newStage(t testing.TB, client *redis.Client, script *redis.Script) *stage {
	return &stage{client, script, stageKeys(redistest.Prefix(t), "n")}
}

func stageKeys(prefix, name string) []string {
	return slices.Concat(Keys(prefix, name, ""), []string{prefix + ":{" + name + "}:expiries"}, Keys(prefix+":dump", name, ""))
}

// run performs steps in one round trip.
func (s *stage) run(steps ...step) ([]outcome, error) {
	var args []any
	for _, st := range steps {
		args = append(args, st.verb, st.at, len(st.args))
		for _, a := range st.args {
			args = append(args, a)
		}
	}
	raw, err := s.script.Run(context.Background(), s.client, s.keys, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	if len(raw) != len(steps) {
		return nil, fmt.Errorf("driver: %d replies to %d steps", len(raw), len(steps))
	}
	outcomes := make([]outcome, len(raw))
	for i, r := range raw {
		pair := r.([]any)
		outcomes[i].reply = pair[0]
		if outcomes[i].expiresMillis, err = ints(pair[1]); err != nil {
			return nil, fmt.Errorf("driver: expiries: %w", err)
		}
	}
	return outcomes, nil
}

// clear deletes what the stage holds.
func (s *stage) clear() error {
	return s.client.Del(context.Background(), s.keys...).Err()
}

// patient returns a client that asks once and waits long. The usual one repeats
// a call after three seconds without a reply, and a repeated script is another
// history.
func patient(t testing.TB, server *redistest.Server) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = time.Minute, time.Minute, time.Minute
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// ints reads a reply of integers.
func ints(reply any) ([]int64, error) {
	if err, ok := reply.(error); ok {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("reply %v is not a list", reply)
	}
	numbers := make([]int64, len(list))
	for i, x := range list {
		if numbers[i], ok = x.(int64); !ok {
			return nil, fmt.Errorf("reply %v holds %v, not an integer", reply, x)
		}
	}
	return numbers, nil
}

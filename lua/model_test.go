package lua

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fleetpace/fleetpace/internal/model"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

var (
	flagSeed      = flag.Uint64("seed", 1, "seed of the first random history; 0 for a random one")
	flagHistories = flag.Int("histories", 0, "random histories per server; 0 for 2,000 on miniredis and 1,000 on Redis, five times as many with FLEETPACE_LONG")
)

// recorder plays a history on the model and writes down what the scripts must
// reply to the same.
type recorder struct {
	line     model.Line
	expireAt int64 // millis, of Redis's clock; meaningful while there is a state
	steps    []step
	check    []func(outcome) error
	expiries int
	winds    int

	dumped      *model.Line
	dumpExpires int64
}

// up lets the keys expire when their time has come.
func (r *recorder) up(at int64) {
	if r.line.Made() && floorDiv(at, 1000) > r.expireAt {
		r.line.Lose()
		r.expiries++
	}
}

// wrote notes until when the keys must live: to one second after the bucket is
// full, and after processes count, in whole milliseconds of the clock.
func (r *recorder) wrote(at int64) {
	r.expireAt = int64(math.Ceil(r.line.FullAt()/1000)) + 1000
	if kept := r.line.KeptUntil(at); kept > 0 {
		r.expireAt = max(r.expireAt, int64(math.Ceil(kept/1000)))
	}
	if r.line.Live() > 0 {
		r.expireAt = max(r.expireAt, floorDiv(at, 1000)+lingerMillis)
	}
	if r.expireAt <= floorDiv(at, 1000) {
		r.line.Lose()
	}
}

// lingerMillis is for how long a state lives after a take, when processes count.
const lingerMillis = 91_000

func floorDiv(a, b int64) int64 { return int64(math.Floor(float64(a) / float64(b))) }

func (r *recorder) note(verb string, at int64, args []string, want func(reply any) error) {
	made, expireAt := r.line.Made(), r.expireAt
	r.steps = append(r.steps, step{verb, at, args})
	r.check = append(r.check, func(got outcome) error {
		if err := want(got.reply); err != nil {
			return err
		}
		if slices.Contains(got.expiresMillis, -1) {
			return fmt.Errorf("a key never expires: %v", got.expiresMillis)
		}
		if made && got.expiresMillis[0] != expireAt || !made && got.expiresMillis[0] != 0 {
			return fmt.Errorf("the state expires at %d millis, the model at %d (made: %v)", got.expiresMillis[0], expireAt, made)
		}
		return nil
	})
}

func (r *recorder) take(at int64, limit model.Limit, c model.Caller, bound float64, requests []model.Request) model.Reply {
	return r.replies("take", at, takeArgs(limit, c, bound, requests), func() model.Reply {
		return r.line.Take(at, limit, c, bound, requests...)
	})
}

func (r *recorder) quick(at int64, limit model.Limit, c model.Caller, row model.Row) model.Given {
	r.up(at)
	given := r.line.Quick(at, limit, c, row)
	// The take before it left at least so much as the bucket needs for 50 seconds.
	if given.Before >= 0 && r.line.FullAt() > float64(at)+50e6 {
		r.wrote(at)
	}
	if r.line.Made() && float64(r.expireAt) < math.Ceil(r.line.FullAt()/1000) {
		panic(fmt.Sprintf("at %d the state expires at %d millis, before the bucket is full", at, r.expireAt))
	}
	r.note("quick", at, quickArgs(limit, c, row), wantInts(givenInts(given)))
	return given
}

func (r *recorder) claim(at int64, limit model.Limit, c model.Caller, bound float64, tickets []model.Ticket) model.Reply {
	return r.replies("claim", at, claimArgs(limit, c, bound, tickets), func() model.Reply {
		floor := r.line.Floor()
		reply := r.line.Claim(at, limit, c, bound, tickets...)
		if r.line.Floor() > floor {
			r.winds++
		}
		return reply
	})
}

func (r *recorder) charge(at int64, limit model.Limit, c model.Caller, what model.Charge) model.Reply {
	return r.replies("charge", at, chargeArgs(limit, c, what), func() model.Reply {
		return r.line.Charge(at, limit, c, what)
	})
}

func (r *recorder) pause(at int64, limit model.Limit, c model.Caller, micros float64) model.Reply {
	return r.replies("pause", at, pauseArgs(limit, c, micros), func() model.Reply {
		return r.line.Pause(at, limit, c, micros)
	})
}

func (r *recorder) resume(at int64, limit model.Limit, c model.Caller) model.Reply {
	return r.replies("resume", at, resumeArgs(limit, c), func() model.Reply {
		return r.line.Resume(at, limit, c)
	})
}

func (r *recorder) set(at int64, limit model.Limit, c model.Caller, to model.Limit, micros float64) model.Reply {
	return r.replies("set", at, setArgs(limit, c, to, micros), func() model.Reply {
		return r.line.Set(at, limit, c, to, micros)
	})
}

func (r *recorder) replies(verb string, at int64, args []string, do func() model.Reply) model.Reply {
	r.up(at)
	reply := do()
	if reply.Stale {
		r.note(verb, at, args, wantStale)
		return reply
	}
	r.wrote(at)
	r.note(verb, at, args, wantInts(replyInts(reply)))
	return reply
}

func (r *recorder) cancel(at int64, limit model.Limit, c model.Caller, tickets []model.Cancellation) {
	r.up(at)
	var want []int64
	for _, back := range r.line.Cancel(at, limit, c, tickets...) {
		want = append(want, map[bool]int64{true: 1}[back])
	}
	if want == nil {
		r.note("cancel", at, cancelArgs(limit, c, tickets), wantStale)
		return
	}
	if r.line.Made() {
		r.wrote(at)
	}
	r.note("cancel", at, cancelArgs(limit, c, tickets), wantInts(want))
}

func (r *recorder) inspect(at int64, limit model.Limit) {
	r.up(at)
	want := r.line.Inspect(at, limit)
	r.note("inspect", at, limitArgs(limit), func(reply any) error {
		got, err := pairs(reply)
		if err != nil {
			return err
		}
		interval, err := strconv.ParseFloat(fmt.Sprint(got["intervalMicros"]), 64)
		if err != nil {
			return fmt.Errorf("intervalMicros %v: %w", got["intervalMicros"], err)
		}
		seen := model.Inspection{
			Tail: got["tail"].(int64), ReachMicros: got["reachMicros"].(int64), WaitMicros: got["waitMicros"].(int64),
			Limit: model.Limit{IntervalMicros: interval, Burst: got["burst"].(int64)}, Epoch: got["epoch"].(int64),
			Live: got["live"].(int64), ResumeMicros: got["resumeMicros"].(int64),
			PauseMicros: got["pauseMicros"].(int64), Gen: got["gen"].(int64), SetMicros: got["setMicros"].(int64),
		}
		if seen != want {
			return fmt.Errorf("replied %+v, the model %+v", seen, want)
		}
		return nil
	})
}

func (r *recorder) forget(at int64, limit model.Limit, cost int64, id string) {
	r.up(at)
	useful := slices.ContainsFunc(r.line.At(at, limit).Claimed(), func(t model.Ticket) bool {
		return t.Cost == cost && t.ID == id
	})
	r.line.Forget(cost, id)
	r.note("forget", at, forgetArgs(cost, id), func(reply any) error {
		// A list of which nothing can be used any more may have expired.
		if got, err := ints(reply); err != nil || useful && got[0] != 1 {
			return fmt.Errorf("replied %v, the model knows the ticket", reply)
		}
		return nil
	})
}

func (r *recorder) lose(at int64) {
	r.line.Lose()
	r.note("lose", at, nil, func(any) error { return nil })
}

func (r *recorder) dump(at int64) {
	r.up(at)
	r.dumped, r.dumpExpires = r.line.Clone(), r.expireAt
	r.note("dump", at, nil, func(any) error { return nil })
}

func (r *recorder) rollback(at int64) {
	r.line, r.expireAt = *r.dumped.Clone(), r.dumpExpires
	r.note("rollback", at, nil, func(any) error { return nil })
}

func (r *recorder) lateAt(number, cost int64) (float64, bool) {
	return r.line.LateAt(number, cost), true
}

// end compares the states.
func (r *recorder) end(at int64, limit model.Limit) {
	r.up(at)
	made, line, now := r.line.Made(), r.line.Clone(), r.line.At(at, limit)
	r.note("state", at, nil, func(reply any) error {
		state, err := parseState(reply)
		if err != nil {
			return err
		}
		if !made {
			if len(state.fields) > 0 {
				return fmt.Errorf("the model has no state, the scripts have %v", state.fields)
			}
			return nil
		}
		for name, want := range map[string]int64{"tail": line.Tail(), "final": line.Final(), "floor": line.Floor(), "epoch": line.Epoch(), "idle": line.Idle(), "pausedMicros": line.Paused()} {
			if got := cmp.Or(state.fields[name], "0"); got != strconv.FormatInt(want, 10) {
				return fmt.Errorf("%s is %s, the model's %d", name, got, want)
			}
		}
		members := 0
		for name, text := range state.fields {
			member, ok := strings.CutPrefix(name, "m:")
			if !ok {
				continue
			}
			members++
			seen, serial, _ := line.Member(member)
			if want := fmt.Sprintf("%d %d ", seen, serial); !strings.HasPrefix(text, want) {
				return fmt.Errorf("the field of %s is %q, in the model %q", member, text, want)
			}
		}
		if members != line.Members() {
			return fmt.Errorf("%d members, in the model %d", members, line.Members())
		}
		// The scripts clear what is of no use any more when they meet it.
		if got, want := slices.DeleteFunc(state.waiting, now.Dead), now.Waiting(); !slices.Equal(got, want) {
			return fmt.Errorf("waiting are %v, in the model %v", got, want)
		}
		if got, want := slices.DeleteFunc(state.free, now.Late), now.Free(); !slices.Equal(got, want) {
			return fmt.Errorf("free are %v, in the model %v", got, want)
		}
		if got, want := slices.DeleteFunc(state.claimed, now.Late), now.Claimed(); !slices.Equal(got, want) {
			return fmt.Errorf("claimed are %v, in the model %v", got, want)
		}
		return nil
	})
}

// record plays a history on the model, of about mean steps.
func record(seed uint64, mean float64, troubles ...trouble) (*history, *recorder) {
	r := &recorder{}
	steps := 3 + int(rand.New(rand.NewPCG(seed, 0x7374657073)).ExpFloat64()*(mean-3))
	h := play(seed, min(steps, 60), r, troubles...)
	r.end(r.steps[len(r.steps)-1].at, h.limit)
	h.counts["histories"] = 1
	h.counts["steps"] = len(r.steps)
	h.counts["expiries"], h.counts["winds"] = r.expiries, r.winds
	return h, r
}

// compare runs what was recorded on the scripts.
func (r *recorder) compare(s *stage) error {
	outcomes, err := s.run(r.steps...)
	if err != nil {
		return err
	}
	for i, got := range outcomes {
		if err := r.check[i](got); err != nil {
			return fmt.Errorf("step %d: %w\n%s", i+1, err, transcript(r.steps[:i+1], outcomes))
		}
	}
	return s.clear()
}

// transcript shows steps and what they led to.
func transcript(steps []step, outcomes []outcome) string {
	var b strings.Builder
	for i, st := range steps {
		fmt.Fprintf(&b, "%4d at %d  %s %s\n          %v\n", i+1, st.at-startMicros, st.verb, strings.Join(st.args, " "), outcomes[i].reply)
	}
	return b.String()
}

// transcript is what the scripts do with the recorded steps.
func (r *recorder) transcript(s *stage) string {
	outcomes, err := s.run(r.steps...)
	if err != nil {
		return err.Error()
	}
	_ = s.clear()
	return transcript(r.steps, outcomes)
}

// TestScriptsEqualModel plays random histories on the model, checks that the
// strict provider refuses none of the calls that they lead to, and that the
// scripts reply the same, call by call, and end in the same state. On miniredis
// this shows the logic, on Redis that its arithmetic is the same.
func TestScriptsEqualModel(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		number, mean, first := 2_000, 9.0, uint64(1) // miniredis is slow, more so under the race detector
		if raceDetector {
			number = 1_000
		}
		if server.Real() {
			number, mean = 1_000, 17
		}
		if long {
			number, first = 5*number, rand.Uint64()
		}
		if testing.Short() {
			number /= 10
		}
		if *flagHistories > 0 {
			number = *flagHistories
		}
		if *flagSeed > 0 {
			first = *flagSeed
		}
		total := playAll(t, server, first, number, mean)
		line, err := json.Marshal(total)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("HISTORIES %s", line)
		if total["histories"] != number {
			t.Errorf("%d histories were played, not %d", total["histories"], number)
		}
		for _, name := range []string{
			"lined_up", "forgets", "expiries", "winds", "cancels", "left", "calls",
		} {
			if n := total[name]; n < number/50 {
				t.Errorf("only %d %s in %d histories: too few to show anything", n, name, number)
			}
		}
		if n := total["paused_calls"]; n < number/2500 {
			t.Errorf("only %d paused_calls in %d histories: too few to show anything", n, number)
		}
		for _, name := range []string{"repeats", "copies", "stale", "losses", "rollbacks", "charges", "ahead", "back", "quicks", "not_plain", "extra", "pauses", "unheard", "resumes", "sets", "limits_moved"} {
			if n := total[name]; n < number/250 { // those that are rare
				t.Errorf("only %d %s in %d histories: too few to show anything", n, name, number)
			}
		}
	})
}

func playAll(t *testing.T, server *redistest.Server, first uint64, number int, mean float64) counts {
	t.Helper()
	var next, failed atomic.Int64
	var mu sync.Mutex
	total := counts{}
	var workers sync.WaitGroup
	script := trueSources().driver()
	for range min(runtime.GOMAXPROCS(0), 4) {
		on := server
		if !server.Real() {
			on = redistest.Mini(t) // it does one thing at a time
		}
		s := newStage(t, patient(t, on), script)
		workers.Go(func() {
			mine := counts{}
			for {
				n := next.Add(1) - 1
				if n >= int64(number) || failed.Load() > 0 {
					break
				}
				seed := first + uint64(n)
				h, r := record(seed, mean)
				refused, at := h.judge()
				h.counts["refused"] = refused
				err := h.duringPauses()
				mine.add(h.counts)
				if err == nil {
					err = r.compare(s)
				}
				if err == nil && refused > 0 {
					err = fmt.Errorf("the provider refused %d of %d calls, the first at %d with cost %d\n%s%s",
						refused, len(h.calls), at.at-startMicros, at.cost, h.callList(), r.transcript(s))
				}
				if err != nil {
					failed.Add(1)
					t.Errorf("history with -seed %d (%v): %v", seed, h, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(mine)
		})
	}
	workers.Wait()
	return total
}

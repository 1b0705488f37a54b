package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// A ledger holds every turn that the processes of a test were given, as package reserve
// reports them: a file per process, which outlives a process that is killed.
type ledger struct{ dir string }

// aTurn is a turn and who had it.
type aTurn struct {
	observe.Turn
	process string
}

func newLedger(t testing.TB) *ledger { return &ledger{t.TempDir()} }

// keepTurns has this process write its turns into a ledger, each at once and in one piece.
func keepTurns(dir, process string) error {
	if dir == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, process+"-"+strconv.Itoa(os.Getpid())),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	observe.Turns(func(turn observe.Turn) {
		line, err := json.Marshal(turn)
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil { // a turn that is not in the ledger would be one that nobody judges
			panic(err)
		}
	})
	return nil
}

// turns are all turns so far, without those that nobody used as their calls had left.
func (l *ledger) turns(t testing.TB) (used []aTurn) {
	t.Helper()
	files, err := os.ReadDir(l.dir)
	require.NoError(t, err)
	type permit struct {
		process, limit string
		epoch, number  int64
	}
	back := map[permit]int{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(l.dir, file.Name()))
		require.NoError(t, err)
		text = text[:bytes.LastIndexByte(text, '\n')+1] // one may be on its way
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			turn := aTurn{process: file.Name()}
			require.NoError(t, json.Unmarshal(lines.Bytes(), &turn.Turn))
			if turn.Back {
				back[permit{turn.process, turn.Limit, turn.Epoch, turn.Number}]++
			} else {
				used = append(used, turn)
			}
		}
	}
	used = slices.DeleteFunc(used, func(turn aTurn) bool {
		p := permit{turn.process, turn.Limit, turn.Epoch, turn.Number}
		if turn.Number == 0 || back[p] == 0 {
			return false
		}
		back[p]--
		return true
	})
	slices.SortStableFunc(used, func(a, b aTurn) int { return a.moment().Compare(b.moment()) })
	return used
}

// alone reports whether the process gave the turn by itself, as Redis was away.
func (turn aTurn) alone() bool { return turn.Turn.Turn.IsZero() }

// moment is that of the turn by Redis's clock; of one that Redis knows nothing of, that at
// which it was given.
func (turn aTurn) moment() time.Time {
	if turn.alone() {
		return turn.Given
	}
	return turn.Turn.Turn
}

// limitOf is what turns are judged by.
type limitOf struct {
	rate  float64
	burst int
	// share is the part of the rate that a process may use by itself. With 0 nobody may.
	share float64
	// ownClock: Redis's clock is not that of this machine.
	ownClock bool
}

const (
	// oversleep is by how much a turn may be late beyond what its permits allow, and
	// rounding is what replies in whole microseconds may add to a rate.
	oversleep = 20 * time.Millisecond
	rounding  = 1.001
	// drift is by how much the monotonic clock, by which a process waits, may run away
	// from Redis's while a test runs.
	drift = 20 * time.Millisecond
	// ahead is for how long before its moment a turn may be fixed.
	ahead = time.Second
)

// faults is what is wrong with turns that come from one limit. Each part of it holds
// however long the machine stops a process, since none asks when a caller went on:
//
//   - No permit is given twice.
//   - By Redis's clock, the moments of the turns keep the limit exactly: a strict provider
//     that was called at these moments refuses nothing. A process can not know them so
//     well: it takes a reply to be as old as the fastest on its way, and one that a stall
//     held up, with none faster before it, makes its turns late by as much as that. So
//     moments on the clock of a process say nothing exact of a limit, and Redis's do.
//   - No turn is given before its moment; and none later than its permits last, on the
//     clock of its process. What is judged is the moment that reserve looked at when it
//     found the turn usable.
//   - Where processes go by themselves, each keeps its own share.
func (l limitOf) faults(turns []aTurn) (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	type permit struct {
		limit         string
		epoch, number int64
	}
	holder := map[permit]aTurn{}
	lines := map[int64]*provider.Provider{} // by epoch: with data, the order of numbers is lost
	alone := map[string]*provider.Provider{}
	for _, turn := range turns {
		if turn.alone() {
			if alone[turn.process] == nil {
				// It may give a turn late by oversleep, and the next in time.
				late := 1 + int(l.rate*l.share*oversleep.Seconds())
				alone[turn.process] = provider.New(provider.TokenBucket(max(l.rate*l.share, 1e-9)*rounding, max(1, int(float64(l.burst)*l.share))+late))
			}
			if ok, wait := alone[turn.process].JudgeAt(turn.Given, int(turn.Cost)); !ok || l.share == 0 {
				wrong("%s gives itself a turn %v before its share allows it: %+v", turn.process, wait, turn)
			}
			continue
		}
		for number := turn.Number; turn.Number > 0 && number > turn.Number-turn.Cost; number-- {
			p := permit{turn.Limit, turn.Epoch, number}
			if other, ok := holder[p]; ok {
				wrong("permit %d is given twice: %+v and %+v", number, other, turn)
			}
			holder[p] = turn
		}
		if lines[turn.Epoch] == nil {
			lines[turn.Epoch] = provider.New(provider.TokenBucket(l.rate*rounding, l.burst))
		}
		if ok, wait := lines[turn.Epoch].JudgeAt(turn.moment(), int(turn.Cost)); !ok {
			wrong("a turn comes %v before the limit allows it: %+v", wait, turn)
		}
		if turn.Late < 0 || turn.Late > turn.Slack+oversleep {
			wrong("a turn is given %v after its moment, and its permits last %v: %+v", turn.Late, turn.Slack, turn)
		}
		if early := turn.moment().Sub(turn.Given); early > drift && !l.ownClock {
			wrong("a turn is given %v before its moment by Redis's clock: %+v", early, turn)
		}
	}
	return found
}

// kept expects that turns keep the limit.
func (l limitOf) kept(t assert.TestingT, turns []aTurn) {
	if found := l.faults(turns); len(found) > 0 {
		t.Errorf("%d faults in %d turns: %v", len(found), len(turns), found[:min(len(found), 3)])
	}
}

// refusedAsGiven is a figure: how many of the turns a strict provider would refuse at the
// moments at which they were given, if it bears 20 ms of lateness.
func (l limitOf) refusedAsGiven(turns []aTurn) (refused int) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(a, b aTurn) int { return a.Given.Compare(b.Given) })
	p := provider.New(provider.TokenBucket(l.rate*rounding, l.burst+cmp.Or(int(l.rate*oversleep.Seconds()), 1)))
	for _, turn := range turns {
		if ok, _ := p.JudgeAt(turn.Given, int(turn.Cost)); !ok {
			refused++
		}
	}
	return refused
}

// duringTurns are those whose moments are in [from, to).
func duringTurns(turns []aTurn, from, to time.Time) (found []aTurn) {
	for _, turn := range turns {
		if at := turn.moment(); !at.Before(from) && at.Before(to) {
			found = append(found, turn)
		}
	}
	return found
}

// measure logs figures: they tell how well something went on this machine, and decide
// nothing.
func measure(t testing.TB, what string, figures map[string]any) {
	t.Helper()
	figures["what"] = what
	text, err := json.Marshal(figures)
	require.NoError(t, err)
	t.Logf("MEASURE %s", text)
}

// The judge sees what it is there for.
func TestTheJudgeOfTurns(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	line := func() (turns []aTurn) {
		for i := range int64(1000) {
			at := start.Add(time.Duration(i) * 10 * time.Millisecond)
			turns = append(turns, aTurn{process: "one", Turn: observe.Turn{
				Limit: "api", Epoch: 1, Number: i + 1, Cost: 1, Late: 2 * time.Millisecond,
				Given: at.Add(5 * time.Millisecond), Told: at.Add(-time.Second), Turn: at,
			}})
		}
		return turns
	}
	limit := limitOf{rate: 100, burst: 1, share: 0.2}
	assert.Empty(t, limit.faults(line()))
	for name, spoil := range map[string]func([]aTurn) []aTurn{
		"a permit that is given twice": func(turns []aTurn) []aTurn { return slices.Insert(turns, 500, turns[500]) },
		"a turn too many": func(turns []aTurn) []aTurn {
			more := turns[500]
			more.Number = 5000
			return slices.Insert(turns, 500, more)
		},
		"a turn that is overslept": func(turns []aTurn) []aTurn {
			turns[500].Late = oversleep + 1
			return turns
		},
		"a turn before its moment": func(turns []aTurn) []aTurn {
			turns[500].Late = -1
			return turns
		},
		"a clock that is ahead": func(turns []aTurn) []aTurn {
			turns[500].Given = turns[500].Turn.Turn.Add(-drift - 1)
			return turns
		},
		"more than its share": func(turns []aTurn) []aTurn {
			for range 3 {
				turns = append(turns, aTurn{process: "one", Turn: observe.Turn{Cost: 1, Given: turns[999].Given}})
			}
			return turns
		},
	} {
		assert.NotEmpty(t, limit.faults(spoil(line())), name)
	}
}

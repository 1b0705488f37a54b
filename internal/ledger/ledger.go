// Package ledger keeps the turns that package reserve gives, as package observe reports
// them, and judges them. It is for tests.
package ledger

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
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// Turn is a turn and who had it.
type Turn struct {
	observe.Turn
	Process string
}

// Keep has this process write its turns into a directory, each at once and in one piece:
// into a file of its own, which outlives a process that is killed.
func Keep(dir, process string) error {
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

// Read returns the turns that were used so far, by all who keep theirs in the directory,
// in the order of their moments, without those that were not used after all.
func Read(dir string) ([]Turn, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Turn
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		text = text[:bytes.LastIndexByte(text, '\n')+1] // one may be on its way
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			turn := Turn{Process: file.Name()}
			if err := json.Unmarshal(lines.Bytes(), &turn.Turn); err != nil {
				return nil, err
			}
			all = append(all, turn)
		}
	}
	return inOrder(all), nil
}

// Book keeps the turns of this process, by the prefix of their limits.
type Book struct {
	mu    sync.Mutex
	turns map[string][]Turn
}

// Open begins to keep the turns of this process.
func Open() *Book {
	b := &Book{turns: map[string][]Turn{}}
	observe.Turns(func(turn observe.Turn) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turns[turn.Prefix] = append(b.turns[turn.Prefix], Turn{Turn: turn})
	})
	return b
}

// Turns are those under a prefix that were used so far, as of [Read].
func (b *Book) Turns(prefix string) []Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return inOrder(slices.Clone(b.turns[prefix]))
}

// inOrder sorts turns by their moments, and strikes out those that were not used after all.
func inOrder(turns []Turn) []Turn {
	type one struct {
		process, prefix, limit, id string
		cost, given, moment        int64
	}
	is := func(t Turn) one {
		return one{t.Process, t.Prefix, t.Limit, t.ID, t.Cost, t.Given.UnixNano(), t.Moment().UnixNano()}
	}
	unused := map[one]int{}
	for _, t := range turns {
		if t.Unused {
			unused[is(t)]++
		}
	}
	turns = slices.DeleteFunc(turns, func(t Turn) bool {
		if !t.Unused && unused[is(t)] > 0 {
			unused[is(t)]--
			return true
		}
		return t.Unused
	})
	slices.SortStableFunc(turns, func(a, b Turn) int { return a.Moment().Compare(b.Moment()) })
	return turns
}

// Alone reports whether the process gave the turn by itself, as Redis was away.
func (turn Turn) Alone() bool { return turn.Turn.Turn.IsZero() }

// Moment is that of the turn by Redis's clock; of one that Redis knows nothing of, that at
// which the process gave it to itself.
func (turn Turn) Moment() time.Time {
	if turn.Alone() {
		return turn.Given.Add(-turn.Late)
	}
	return turn.Turn.Turn
}

// Limit is what turns are judged by.
type Limit struct {
	Rate  float64 // permits per second
	Burst int
	// Share is the part of the rate that a process may use by itself, where it does not tell how
	// much that is: it shares the rate with those that it knows of. With 0 nobody may.
	Share float64
	// OwnClock: Redis's clock is not that of this machine.
	OwnClock bool
}

const (
	// Rounding is what replies in whole microseconds may add to a rate.
	Rounding = 1.001
	// tardy is by how much a process that goes by itself may give a turn late, and the next
	// one in time.
	tardy = 20 * time.Millisecond
	// drift is by how much the monotonic clock, by which a process waits, may run away
	// from Redis's while a test runs.
	drift = 10 * time.Millisecond
	// mostEarly is the most by which a turn is used before its moment, whatever its process
	// could know: a provider bears that much.
	mostEarly = 20 * time.Millisecond
)

// Faults is what is wrong with turns that come from one limit. Each part of it holds
// however long the machine stops a process, since none asks when a caller went on:
//
//   - By Redis's clock, the moments of the turns keep the limit exactly: a strict provider
//     that was called at these moments refuses nothing. So no permit was given twice. A
//     process can not know them so well: it takes a reply to be as old as the fastest on its
//     way, and one that a stall held up, with none faster before it, makes its turns late by
//     as much as that. So moments on the clock of a process say nothing exact of a limit, and
//     Redis's do.
//   - No turn is used before its moment; and none later than it may be, on the clock of its
//     process. What is judged is the moment that reserve looked at when it found the turn
//     usable.
//   - Where processes go by themselves, each keeps its own share: by the moments at which it
//     gave itself its turns, since a stall may hold up any call that has one.
func (l Limit) Faults(turns []Turn) (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	type api struct{ prefix, limit string }
	apis := map[api]*provider.Provider{}
	type member struct {
		process, prefix, limit string
		pace                   float64
	}
	alone := map[member]*provider.Provider{}
	for _, turn := range turns {
		if turn.Late < 0 || turn.Late > turn.Slack {
			wrong("a turn is used %v after its moment, and may be for %v: %+v", turn.Late, turn.Slack, turn)
		}
		if turn.Alone() {
			pace := cmp.Or(turn.Pace, l.Rate*l.Share)
			m := member{turn.Process, turn.Prefix, turn.Limit, pace}
			if alone[m] == nil {
				late := 1 + int(pace*tardy.Seconds())
				alone[m] = provider.New(provider.TokenBucket(max(pace, 1e-9)*Rounding, max(1, int(float64(l.Burst)*pace/l.Rate))+late))
			}
			if ok, wait := alone[m].JudgeAt(turn.Moment(), int(turn.Cost)); !ok || l.Share == 0 {
				wrong("%s gives itself a turn %v before its share allows it: %+v", turn.Process, wait, turn)
			}
			if turn.Pace > l.Rate {
				wrong("%s gives itself more than all of the limit: %+v", turn.Process, turn)
			}
			continue
		}
		to := api{turn.Prefix, turn.Limit}
		if apis[to] == nil {
			apis[to] = provider.New(provider.TokenBucket(l.Rate*Rounding, l.Burst))
		}
		if ok, wait := apis[to].JudgeAt(turn.Moment(), int(turn.Cost)); !ok {
			wrong("a turn comes %v before the limit allows it: %+v", wait, turn)
		}
		if early := turn.Moment().Sub(turn.Given); early > min(turn.Early+drift, mostEarly) && !l.OwnClock {
			wrong("a turn is used %v before its moment by Redis's clock: %+v", early, turn)
		}
	}
	return found
}

// RefusedAsGiven is a figure: how many of the turns a strict provider would refuse at the
// moments at which they were given, if it bears 20 ms of lateness.
func (l Limit) RefusedAsGiven(turns []Turn) (refused int) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(a, b Turn) int { return a.Given.Compare(b.Given) })
	p := provider.New(provider.TokenBucket(l.Rate*Rounding, l.Burst+cmp.Or(int(l.Rate*tardy.Seconds()), 1)))
	for _, turn := range turns {
		if ok, _ := p.JudgeAt(turn.Given, int(turn.Cost)); !ok {
			refused++
		}
	}
	return refused
}

// During are those whose moments are in [from, to).
func During(turns []Turn, from, to time.Time) (found []Turn) {
	for _, turn := range turns {
		if at := turn.Moment(); !at.Before(from) && at.Before(to) {
			found = append(found, turn)
		}
	}
	return found
}

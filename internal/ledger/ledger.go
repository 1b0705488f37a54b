// Package ledger records the turns that package reserve grants, as package observe reports them, and judges
// them. It is for tests.
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

// Turn is a turn, and the process that had it.
type Turn struct {
	observe.Turn
	Process string
}

// Keep makes this process write its turns into a file of its own in a directory. Each is written at once
// and in one piece, so the file is complete up to the moment at which a process is killed.
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
		if err != nil { // a turn that is missing in the ledger would not be judged
			panic(err)
		}
	})
	return nil
}

// Read returns the turns of all processes that write into the directory, in the order of their moments. It
// leaves out turns that were given up unused.
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
		text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be incomplete
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

// Book holds the turns of this process, by the prefix of their limits.
type Book struct {
	mu    sync.Mutex
	turns map[string][]Turn
}

// Open begins to record the turns of this process.
func Open() *Book {
	b := &Book{turns: map[string][]Turn{}}
	observe.Turns(func(turn observe.Turn) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turns[turn.Prefix] = append(b.turns[turn.Prefix], Turn{Turn: turn})
	})
	return b
}

// Turns returns the turns under a prefix, as [Read] does.
func (b *Book) Turns(prefix string) []Turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return inOrder(slices.Clone(b.turns[prefix]))
}

// inOrder sorts turns by their moments, and removes turns that were given up unused.
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

// Alone reports whether the process granted the turn itself, as Redis was unreachable.
func (turn Turn) Alone() bool { return turn.Turn.Turn.IsZero() }

// Moment is the moment of the turn by Redis's clock. If the process granted the turn itself, Moment is when
// it did.
func (turn Turn) Moment() time.Time {
	if turn.Alone() {
		return turn.Given.Add(-turn.Late)
	}
	return turn.Turn.Turn
}

// Limit is the limit by which turns are judged.
type Limit struct {
	Rate  float64 // permits per second
	Burst int
	// Share is the part of the rate that a process may use by itself if it does not report its share. A
	// process reports it if it divides the rate by the number of processes. 0: it may use none.
	Share float64
	// OwnClock says that Redis's clock is not the clock of this machine.
	OwnClock bool
}

const (
	// Rounding is how much replies in whole microseconds may add to a rate.
	Rounding = 1.001
	// tardy is how late a process may grant itself a turn, although the next one is in time.
	tardy = 20 * time.Millisecond
	// drift is how much the monotonic clock of a process may gain on Redis's clock while a test runs.
	drift = 10 * time.Millisecond
	// mostEarly is the most by which a turn may be used before its moment, whatever its process could know.
	// A provider tolerates that much.
	mostEarly = 20 * time.Millisecond
)

// Faults returns what is wrong with turns of one limit. Each rule holds however long the machine stops a
// process, since no rule asks when a caller continued:
//
//   - By Redis's clock, the moments of the turns keep the limit exactly: a strict provider
//     that was called at these moments refuses nothing. So no permit was granted twice. The
//     clock of a process is not exact enough for that. A process takes a reply to be as old as
//     half of its fastest round trip. If a stall delays the reply, its turns are late by as much.
//   - No turn is used before its moment, and none after its end, on the clock of its
//     process. The rule judges the moment at which reserve found the turn usable.
//   - Processes without Redis each keep their own share, by the moments at which they
//     granted themselves their turns. A stall may delay any call that has a turn.
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

// RefusedAsGiven returns how many of the turns a strict provider would refuse at the moments at which they
// were given, if it tolerates 20 ms of lateness.
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

// During returns the turns whose moments are in [from, to).
func During(turns []Turn, from, to time.Time) (found []Turn) {
	for _, turn := range turns {
		if at := turn.Moment(); !at.Before(from) && at.Before(to) {
			found = append(found, turn)
		}
	}
	return found
}

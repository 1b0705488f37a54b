package lua

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

const (
	windowMicros = 4e6
	startMicros  = 1.7e15
	steps        = 120
)

// history plays a random fleet against the scripts and the model at once. Replies must be
// equal, and a strict provider must refuse none of the calls.
type history struct {
	*rand.Rand
	server *server
	model  *queuemodel.Redis
	keys   []string

	real, offset float64 // Redis's clock is real + offset
	run          int
	limits       []*ruling
	processes    []*process
	referee      referee
	number       int
	saved        *saved
	counts       map[string]int
	spent        map[spending]float64
	alone        bool // without the model
	trace        func(format string, args ...any)
	settling     bool // costs are settled …
	estimating   bool // … and estimated again before
	setting      bool // limits are set
	back         bool // Redis's clock steps back, or else ahead
	away         bool // processes spend permits without Redis
	mute         bool // processes send heartbeats only when one of them dies, or data is lost
	hasty        bool // new calls have deadlines
	bounded      bool // few calls may wait
	leveling     bool // limits are told to have fewer permits left
	quiet        bool // calls come one by one, so that most find nobody waiting
	booking      bool // some calls have IDs
	flowing      bool // calls name their flows
	queueing     bool // most calls join a queue or leave it
	booked       []*call
	holding      []*turn // with slots, whose calls are not done
	keepBy       float64 // when those are noted again, as data was lost; 0: it was not
}

// spending is what an ask spent of a limit.
type spending struct {
	ask   string
	limit int
}

type ruling struct {
	kind string
	a, b float64
	late float64 // a turn may be used so much later, and b is longer by that
	set  bool

	inForceA, inForceB float64
	followed           float64 // when the provider goes by the last change
}

type process struct {
	name    string
	way     float64
	serial  int
	memory  []memory
	waiting []*call
	turns   []*turn
}

type memory struct {
	queuemodel.Head
	known  string
	real   float64 // when the reply was there
	lost   bool    // since then, as its heartbeat has told
	offset float64 // of Redis's clock, then
}

type call struct {
	number  int
	parts   []queuemodel.Part
	settles bool
	now     bool
	retry   float64
	back    string // the ask of its last turn, which it slept through
	// Of a call that has an ID:
	id               string
	patience, latest float64
	which            int // the part at which it waits
	flow             *queuemodel.Flow
}

type turn struct {
	*call
	ask         string
	of          *process
	from, until float64   // real
	tags        []float64 // or records, of a call that is to be settled
	used        bool
}

// slotSeeds are those from which on histories have limits of slots.
const slotSeeds = 1_000_000

// queueSeeds are those from which on histories have slow paced limits and little else than calls that join the
// queue or leave it: they take the short path of queue.lua.
const queueSeeds = 2 * slotSeeds

func (h *history) now() float64 { return h.real + h.offset }

func (h *history) pick(n int) bool { return h.IntN(n) == 0 }

func newHistory(seed uint64, client *redis.Client, prefix string, other map[string]*redis.Script) *history {
	h := &history{quiet: seed%3 == 0, booking: seed%4 > 0, settling: seed%3 == 1, estimating: seed%21 == 16, setting: seed%5 == 0, back: seed%2 == 0, away: seed%7 == 3, hasty: seed%11 == 5, bounded: seed%13 == 6, leveling: seed%17 == 9, flowing: seed%4 < 2, mute: seed%8 == 5, Rand: rand.New(rand.NewPCG(seed, 1)), model: queuemodel.New(), real: startMicros, counts: map[string]int{}, spent: map[spending]float64{},
		trace: func(string, ...any) {}}
	if os.Getenv("FLEETPACE_TRACE") == strconv.FormatUint(seed, 10) {
		h.trace = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	limits := 1 + h.IntN(3)
	if h.queueing = seed >= queueSeeds; h.queueing {
		limits = 1 + h.IntN(3)/2
		h.booking, h.flowing, h.settling = seed%10 == 1, seed%10 == 2, seed%10 == 3
	}
	for j := range limits {
		kind := []string{"p", "p", "p", "q", "r", "w"}[h.IntN(6)]
		if h.quiet && !h.pick(5) {
			kind = "p"
		}
		if h.queueing {
			kind = "p"
		} else if seed >= slotSeeds && (j == 0 || h.pick(3)) {
			kind = "s"
		}
		r := &ruling{kind: kind}
		switch kind {
		case "p":
			slowest := 4
			if h.quiet {
				slowest = 2
			}
			r.a, r.b = []float64{1e4, 5e4, 1e5, 1e6}[h.IntN(slowest)], []float64{1, 1, 2, 5, 20}[h.IntN(5)]
			if h.queueing {
				r.a *= 20
			}
		case "q":
			r.a, r.b = float64(3+h.IntN(30)), 1e4
		case "r":
			r.a, r.b = float64(3+h.IntN(20)), []float64{3e5, 2e6}[h.IntN(2)]
			if int(r.a)%2 == 0 {
				r.late = r.b / 10
			}
		case "s":
			r.a, r.b = []float64{1, 1, 2, 5, 20}[h.IntN(5)], 1
		case "w":
			r.a, r.b = []float64{1e4, 1e5}[h.IntN(2)], 2e6
		}
		r.inForceA, r.inForceB = r.a, r.b
		h.limits = append(h.limits, r)
		h.keys = append(h.keys, Keys(prefix, "", "api", kind, strconv.Itoa(j))...)
	}
	processes := 1 + h.IntN(4)
	if h.quiet {
		processes = 1 + h.IntN(2)
	}
	for p := range processes {
		h.processes = append(h.processes, &process{
			name: "p" + strconv.Itoa(p), way: []float64{50, 1000, 25000}[h.IntN(3)], memory: make([]memory, len(h.limits)),
		})
	}
	h.server = &server{client: client, ctx: context.Background(), ask: Ask, other: other, keys: h.keys}
	h.beat()
	return h
}

// play plays a history to its end, and returns what was wrong.
func (h *history) play() error {
	for range steps {
		if err := h.step(); err != nil {
			return err
		}
	}
	for range 10 { // all that wait get their turns, or at least go on
		h.pass(200000)
	}
	var buckets []*bucket
	for _, r := range h.limits {
		lost := h.counts["lost"]+h.counts["rollback"] > 0
		// What was lost of a window nobody knows, and not that the limit was set.
		off := (r.kind == "q" || r.kind == "r") && (lost || h.counts["step"] > 0) || r.set && lost ||
			h.counts["silent"] > 0 || r.kind == "s" && lost && h.counts["step"] > 0 || r.kind == "w" && lost // what the last call is to pay for may lie beyond the horizon
		buckets = append(buckets, &bucket{kind: r.kind, a: r.a, b: r.b - r.late, tat: startMicros - 1e12, off: off})
	}
	return h.referee.verdict(buckets)
}

// pass lets time pass, in which turns are used.
func (h *history) pass(micros float64) {
	until := h.real + micros
	for _, p := range h.processes {
		for _, t := range slices.Clone(p.turns) {
			if t.used || t.from > until {
				continue
			}
			at := max(t.from, h.real)
			switch {
			case at > t.until+bears || h.pick(20): // slept through
				i := slices.Index(p.turns, t)
				p.turns = slices.Delete(p.turns, i, i+1)
				if h.pick(2) {
					t.back = t.ask
					ofIt := func(o *turn) bool { return o.ask == t.ask }
					if slices.ContainsFunc(p.turns, ofIt) { // others of that ask are used
						t.back = ""
						if len(t.parts) == 1 && !slices.ContainsFunc(p.turns[i:], ofIt) { // the ones before it
							spent := spending{t.ask, t.parts[0].Limit}
							h.spent[spent] -= t.parts[0].Cost
							t.back = fmt.Sprintf("%s %.0f", t.ask, h.spent[spent])
							h.counts["behind"]++
						}
					}
					t.retry = h.real
					p.waiting = append(p.waiting, t.call)
				}
				continue
			case h.pick(3) && t.until > at:
				at += h.Float64() * (t.until - at)
			}
			if at > until {
				continue
			}
			t.used = true
			h.trace("%.0f: call %d is made", at-startMicros, t.number)
			if h.hasSlots(t.call) {
				h.holding = append(h.holding, t)
			}
			for _, part := range t.parts {
				h.referee.events = append(h.referee.events, event{at: at, limit: part.Limit, cost: part.Cost, of: t.number})
			}
			h.counts["used"]++
		}
	}
	h.real = until
}

func (h *history) step() error {
	if h.quiet && h.pick(2) {
		h.pass(math.Floor(h.Float64() * 3e5))
	}
	if h.pick(4) {
		h.pass(math.Floor(h.Float64() * 400000))
	} else {
		h.pass(math.Floor(h.Float64() * 20000))
	}
	p := h.processes[h.IntN(len(h.processes))]
	n := h.IntN(100)
	if (h.quiet || h.queueing) && n >= 86 && !h.pick(8) {
		n = 0
	}
	if h.settling && h.pick(4) {
		n = 80
	}
	if err := h.keeps(); err != nil {
		return err
	}
	if len(h.holding) > 0 && h.pick(2) {
		return h.ends()
	}
	if h.booking && h.pick(150) && h.keepBy == 0 {
		h.pass([]float64{9e8, 5e9}[h.IntN(2)])
	}
	h.trace("%.0f: %s does %d", h.real-startMicros, p.name, n)
	switch {
	case n < 70:
		return h.asks(p)
	case n < 80:
		return h.leaves(p)
	case n < 86:
		return h.settles(p)
	case n < 88:
		return h.pauses(p)
	case n < 89:
		if h.leveling {
			return h.levels(p)
		}
		return h.resumes(p)
	case n < 91:
		return h.sets(p)
	case n < 92:
		return h.loses()
	case n < 94:
		return h.rollsBack()
	case n < 95:
		h.counts["step"]++
		// Who has not asked since a step back can not see one ahead that follows it.
		if h.back {
			h.offset -= []float64{3e5, 5e6}[h.IntN(2)]
		} else {
			h.offset += []float64{2e6, 1e8, 2e9}[h.IntN(3)]
		}
	case n < 96: // dies
		if len(h.processes) > 1 {
			h.model.Dead[p.name] = h.now()
			h.killed(p)
			h.server.client.(*redis.Client).ZAdd(h.server.ctx, h.keys[3], redis.Z{Score: -h.now(), Member: p.name})
			h.processes = slices.DeleteFunc(h.processes, func(o *process) bool { return o == p })
			h.beat()
			h.counts["died"]++
		}
	}
	return nil
}

// histories is how many a test plays: FLEETPACE_HISTORIES, or else 40 in the gate, and fewer elsewhere, or under
// the race detector, which makes miniredis several times slower.
func histories(t *testing.T) uint64 {
	if n := setting(t, "FLEETPACE_HISTORIES"); n > 0 {
		return n
	}
	if raceDetector {
		return 15
	}
	return redistest.Budget[uint64](40, 15)
}

// setting is a variable with a number; 0: it is not set.
func setting(t *testing.T, name string) (n uint64) {
	if text := os.Getenv(name); text != "" {
		var err error
		n, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, name)
	}
	return n
}

func TestScriptsEqualModel(t *testing.T) { playHistories(t, 0) }

// Limits of slots, alone and beside others: what is in flight is never more than they allow.
func TestScriptsEqualModelOfSlots(t *testing.T) { playHistories(t, slotSeeds) }

// The short path of calls that join the queue or leave it answers as the rest of the scripts would.
func TestScriptsEqualModelOfQueues(t *testing.T) { playHistories(t, queueSeeds) }

// playHistories plays those from a seed on, or from so many behind it as FLEETPACE_FIRST_HISTORY says.
func playHistories(t *testing.T, first uint64) {
	first += setting(t, "FLEETPACE_FIRST_HISTORY")
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, counts := server.Client(t), map[string]int{}
		prefix := redistest.Prefix(t)
		for seed := range histories(t) {
			seed += first
			h := newHistory(seed, client, prefix+strconv.FormatUint(seed, 10), nil)
			err := h.play()
			require.NoError(t, err, "seed %d", seed)
			for what, n := range h.counts {
				counts[what] += n
			}
			require.NoError(t, client.Del(t.Context(), h.keys...).Err())
		}
		t.Log(counts)
	})
}

// Histories in which the scripts and the model once differed, or their provider refused a call: a dead process held
// slots in a hard stop, and a call got back more than it was charged after its record was lost.
func TestScriptsEqualModelOfFinds(t *testing.T) {
	for _, seed := range []uint64{5272, slotSeeds + 291} {
		h := newHistory(seed, redistest.Mini(t).Client(t), redistest.Prefix(t), nil)
		require.NoError(t, h.play(), "seed %d", seed)
	}
}

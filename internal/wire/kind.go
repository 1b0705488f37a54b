package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind describes a kind of limit. A and B are the two numbers of a limit in the scripts.
type Kind struct {
	Letter string // The letter of the kind in the scripts: see head.lua.
	Text   string

	Refills  bool // Its permits become available one after the other, at a pace.
	Slots    bool // Its permits come back when the call is done.
	Windowed bool // Its permits belong to a window …
	rolling  bool // … that moves with time.
	one      bool // At most one permit is used at once. Otherwise at most B, if permits refill, or A.
	level    bool // Its reach is the moment at which its bucket is full.
	relative int  // The index of the number in its reach that counts from the moment of the reply; -1: none.

	// perSecond returns the rate, in permits per second, at which evenly spaced calls use all of a limit.
	// Edges are the edges of the windows of a quota.
	perSecond func(a, b float64, edges []int64) float64
}

// second is a second in micros.
const second = 1e6

func perInterval(a, _ float64, _ []int64) float64 { return second / a }

// Kinds are all kinds of limit, in the order of the kinds of package reserve.
var Kinds = [...]Kind{
	{Letter: "p", Text: "paced", Refills: true, level: true, perSecond: perInterval},
	{Letter: "w", Text: "warming up", one: true, level: true, perSecond: perInterval},
	{Letter: "q", Text: "quota", Windowed: true, relative: -1, perSecond: func(a, _ float64, edges []int64) float64 {
		return a * second / float64(edges[2]-edges[1])
	}},
	{Letter: "r", Text: "rolling", Windowed: true, rolling: true, relative: 1, perSecond: func(a, b float64, _ []int64) float64 {
		return a * second / b
	}},
	{Letter: "s", Text: "slots", Slots: true, relative: 1, perSecond: func(a, _ float64, _ []int64) float64 { return a }},
}

// kindOf returns the kind with a letter.
func kindOf(letter string) *Kind {
	for i := range Kinds {
		if Kinds[i].Letter == letter {
			return &Kinds[i]
		}
	}
	return &Kind{relative: -1}
}

// now returns the kind of the limit. A plan may have another one.
func (l *Limit) now() *Kind { return l.is.Load() }

// Paced reports whether permits of the limit become available one after the other.
func (l *Limit) Paced() bool { return l.now().Refills }

// HasSlots reports whether the limit bounds how many calls are made at once.
func (l *Limit) HasSlots() bool { return l.now().Slots }

// Windowed reports whether permits of the limit belong to a window.
func (l *Limit) Windowed() bool { return l.now().Windowed }

// Most returns how many permits may be used at once.
func (l *Limit) Most() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.kind.one:
		return 1
	case l.kind.Refills:
		return int64(l.inForce.b)
	default:
		return int64(l.inForce.a)
	}
}

// Pace returns the rate, in permits per second, at which evenly spaced calls use all of the limit in force.
// It also returns how many calls its provider accepts at once.
func (l *Limit) Pace(now time.Time) (perSecond, burst float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, b := l.inForce.a, l.inForce.b
	var edges []int64
	if l.Edges != nil {
		edges = l.Edges(now.UnixMicro())
	}
	if perSecond, burst = l.kind.perSecond(a, b, edges), 1; l.kind.Refills {
		burst = b
	}
	return perSecond, burst
}

// inForce is a limit in a reply.
type inForce struct{ a, b float64 }

// termsOf reads the last two words of a known text.
func termsOf(text string, otherwise inForce) inForce {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return otherwise
	}
	a, errA := strconv.ParseFloat(fields[len(fields)-2], 64)
	b, errB := strconv.ParseFloat(fields[len(fields)-1], 64)
	if errA != nil || errB != nil || math.IsNaN(a+b) {
		return otherwise
	}
	return inForce{a, b}
}

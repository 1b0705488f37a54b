package wire

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/internal/fault"
)

// This file is the plan of a limit: the limit that the program has for a key, and its version. Each script call
// brings the plan of its process as KIND, A, B and the rank. The scripts put the highest rank in force, and reply with
// a newer plan than the one that was brought. So all processes learn the newest plan, and bring it back after a
// loss of data.

const (
	// MostVersion is the highest version of a plan. The scripts count with doubles, which are exact up to there.
	MostVersion = 1 << 52

	// ofPlans is the rank of version 0. The ranks of heartbeats are lower.
	ofPlans = 1 << 40
)

// Plan takes over a plan, unless the process knows one as new. It returns the plan that the process then has, and
// its version.
func (l *Limit) Plan(t Terms, version int64) (of Terms, its int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version > l.plan {
		l.have(t, version)
	}
	return l.Terms, l.plan
}

// have replaces the plan. The limit must be locked.
func (l *Limit) have(t Terms, version int64) {
	l.plan = version
	if l.Same(t) {
		l.Late = t.Late
		return
	}
	l.unsaid = true
	if !l.like(&t) {
		l.reach, l.calm = "", false // it is that of another kind
		l.become(t)
	}
	inForce := l.inForce
	if l.become(t); l.known != "" {
		l.inForce = inForce
	}
}

// become sets the limit. The limit must be locked.
func (l *Limit) become(t Terms) {
	if t.Edges == nil && t.Calendar != "" {
		t.Edges = calendar.Edges(t.Calendar)
	}
	l.Terms, l.a, l.b, l.kind, l.form, l.inForce = t, exact(t.A), exact(t.B), kindOf(t.Kind), t.Kind, inForce{t.A, t.B}
	l.is.Store(l.kind)
	if !t.like(l.base) {
		l.form += " " + cmp.Or(t.Calendar, "-")
	}
}

// Unsaid reports whether Redis was not told of the plan yet.
func (l *Limit) Unsaid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsaid
}

// Asked reports whether Redis has replied about the limit.
func (l *Limit) Asked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known != ""
}

// otherPlan says that a plan of another kind than that of the call is in force. The process has it after the reply.
type otherPlan struct{ plan string }

func (p *otherPlan) Error() string { return "another plan is in force: " + p.plan }
func (*otherPlan) Unwrap() error   { return ErrAgain }

// problemOfPlan is the error for the plan of another kind in a reply.
func problemOfPlan(text string) error {
	if _, _, ok := readPlan(text, Terms{}); !ok {
		return fmt.Errorf("%w: the newest plan is %q, and its kind or its time zone is not known here", fault.ErrInvalid, text)
	}
	return &otherPlan{text}
}

// readPlan reads "<rank> <a> <b>" of a reply, or "<rank> <kind> <calendar> <a> <b>" if the plan is of another kind than
// the keys.
func readPlan(text string, base Terms) (rank int64, t Terms, ok bool) {
	t, words := base, strings.Fields(text)
	t.Late = 0 // the margin is not in a reply
	if len(words) == 5 {
		t = Terms{Kind: words[1]}
		if words[2] != "-" {
			t.Calendar = words[2]
		}
		if kindOf(t.Kind).Letter == "" || t.Kind == "q" && calendar.Edges(t.Calendar) == nil {
			return 0, t, false
		}
	} else if len(words) != 3 {
		return 0, t, false
	}
	rank, err := strconv.ParseInt(words[0], 10, 64)
	of := termsOf(text, inForce{})
	t.A, t.B = of.a, of.b
	return rank, t, err == nil && t.A > 0
}

// follow takes the plan of a reply over if it is newer, or as new as another one with the same version. The limit must
// be locked.
func (l *Limit) follow(plan string) bool {
	rank, t, ok := readPlan(plan, *l.base)
	if !ok || rank < ofPlans+l.plan || l.Same(t) {
		return false
	}
	l.have(t, rank-ofPlans)
	l.unsaid = false
	return true
}

// setRank sets the argument of the rank, for a script that may only read. The limit must be locked.
func (l *Limit) setRank(a *args, i int, reads bool) {
	rank := l.Name.Rank.Load()
	if !l.Plans && l.plan == 0 {
		a.setNumber(i, rank)
		return
	}
	if l.plan > 0 {
		rank = ofPlans + l.plan
	}
	l.unsaid = l.unsaid && reads
	from := len(a.bytes)
	a.bytes = strconv.AppendInt(append(a.bytes, '+'), rank, 10)
	a.set(i, from)
}

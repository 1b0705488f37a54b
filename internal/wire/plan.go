package wire

import (
	"strconv"
	"strings"
)

// This file is the plan of a limit: the limit that the program has for a key, and its version. Each script call
// brings the plan of its process as A, B and the rank. The scripts put the highest rank in force, and reply with
// a newer plan than the one that was brought. So all processes learn the newest plan, and bring it back after a
// loss of data.

const (
	// MostVersion is the highest version of a plan. The scripts count with doubles, which are exact up to there.
	MostVersion = 1 << 52

	// ofPlans is the rank of version 0. The ranks of heartbeats are lower.
	ofPlans = 1 << 40
)

// Plan takes over a plan of the same kind, unless the process knows one as new. It returns the plan that the
// process then has, and its version.
func (l *Limit) Plan(a, b float64, version int64) (ofA, ofB float64, of int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version > l.plan {
		l.have(a, b, version)
	}
	return l.A, l.B, l.plan
}

// have replaces the plan. The limit must be locked.
func (l *Limit) have(a, b float64, version int64) {
	l.plan = version
	if a == l.A && b == l.B {
		return
	}
	l.A, l.B, l.a, l.b, l.unsaid = a, b, exact(a), exact(b), true
	if l.known == "" {
		l.inForce = inForce{a, b}
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

// follow reads "<rank> <a> <b>" of a reply, and takes that plan over if it is newer, or as new as another one
// with the same version. The limit must be locked.
func (l *Limit) follow(plan string) bool {
	words := strings.Fields(plan)
	if len(words) != 3 {
		return false
	}
	rank, err := strconv.ParseInt(words[0], 10, 64)
	to := termsOf(plan, inForce{})
	if err != nil || rank < ofPlans+l.plan || to.a <= 0 || to == (inForce{l.A, l.B}) {
		return false
	}
	l.have(to.a, to.b, rank-ofPlans)
	l.unsaid = false
	return true
}

// setRank sets the argument of the rank, for a script that may only read. The limit must be locked.
func (l *Limit) setRank(a *args, i int, reads bool) {
	rank := l.Name.Rank.Load()
	if !l.Plans {
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

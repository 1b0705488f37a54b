package server

import (
	"fmt"
	"net"
	"net/http"
)

// fair bounds how many of something all callers have together, and how many each of them has: at most perFree for
// each that is free. So one caller gets four fifths at most, two get four ninths each, and a caller that has few
// still gets one. It is not safe for concurrent use.
type fair struct {
	most int // for all callers
	used int
	by   map[caller]int
}

const perFree = 4

func newFair(most int) fair { return fair{most: most, by: map[caller]int{}} }

// take counts one more of a caller, or reports that the caller has too many.
func (f *fair) take(c caller) bool {
	if f.by[c] >= perFree*(f.most-f.used) {
		return false
	}
	f.used++
	f.by[c]++
	return true
}

// free counts one less.
func (f *fair) free(c caller) {
	f.used--
	if f.by[c]--; f.by[c] == 0 {
		delete(f.by, c)
	}
}

// refusal says why take has refused a caller.
func (f *fair) refusal(c caller) error {
	if f.used >= f.most {
		return away("Too many requests wait at this server.")
	}
	return away(fmt.Sprintf("%s has %d of the %d requests that may wait at this server. Others may use the rest.", c, f.by[c], f.most))
}

// caller is who sends requests: the name that it gives itself, or its address if it has none.
type caller struct{ name, address string }

// whoCalls returns the caller of a request.
func whoCalls(r *http.Request) caller {
	if name := callerOf(r); name != "" {
		return caller{name: name}
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return caller{address: host}
}

func (c caller) String() string {
	if c.name != "" {
		return "The caller " + c.name
	}
	return "Callers without a name at the address " + c.address
}

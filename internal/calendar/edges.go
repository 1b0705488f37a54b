package calendar

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// windows is how many edges a script gets: of the window before now, the current one, and three
// later ones. More than one is needed because this process's clock may differ from Redis's.
const windows = 5

// Edges returns a function that returns the edges of windows, in micros. They start with the window
// before a moment. The text is a unit and a time zone, such as day/Europe/Berlin. Edges returns nil if it does
// not know one of them. The function is safe for concurrent use.
func Edges(text string) func(micros int64) []int64 {
	name, place, _ := strings.Cut(text, "/")
	unit := Unit(slices.Index(names, name) + 1)
	zone, err := time.LoadLocation(place)
	if !unit.valid() || err != nil {
		return nil
	}
	var last atomic.Pointer[[]int64]
	return func(at int64) []int64 {
		if e := last.Load(); e != nil && (*e)[1] <= at && at < (*e)[2] {
			return *e
		}
		begin, _ := unit.Window(time.UnixMicro(at), zone)
		edge, end := unit.Window(begin.Add(-time.Microsecond), zone)
		edges := []int64{edge.UnixMicro()}
		for len(edges) < windows {
			edges = append(edges, end.UnixMicro())
			_, end = unit.Window(end, zone)
		}
		last.Store(&edges)
		return edges
	}
}

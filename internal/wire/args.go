package wire

import (
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Buffer is the memory for a Call and its reply. It is used by one call after the other: the call before
// must be over, and its reply must not be used any more.
type Buffer struct {
	args    args
	reader  reader
	heads   []head
	known   []string
	answers []Answers
}

// args are the arguments of one command. All of them are written into one array of bytes: a number or a
// text that becomes an interface by itself is an allocation each.
type args struct {
	all   []any
	spans []span
	bytes []byte
	terms []inForce // of each limit, as the arguments say
}

// span is an argument: a part of the bytes.
type span struct {
	of       *args
	from, to int
}

// MarshalBinary returns the argument; the client calls it.
func (s *span) MarshalBinary() ([]byte, error) { return s.of.bytes[s.from:s.to], nil }

// String returns the argument, for traces and errors.
func (s *span) String() string { return string(s.of.bytes[s.from:s.to]) }

// begin begins the arguments of a script call with some keys.
func (a *args) begin(script *redis.Script, keys int) {
	a.all, a.spans, a.bytes = append(a.all[:0], "evalsha", script.Hash(), keys), a.spans[:0], a.bytes[:0] // these are for hooks of clients
	a.terms = a.terms[:0]
}

// more adds n arguments that are set later, and returns the index of the first.
func (a *args) more(n int) (first int) {
	first = len(a.all)
	for range n {
		a.all = append(a.all, "")
	}
	return first
}

func (a *args) setText(i int, s string) {
	from := len(a.bytes)
	a.bytes = append(a.bytes, s...)
	a.set(i, from)
}

func (a *args) setNumber(i int, n int64) {
	from := len(a.bytes)
	a.bytes = strconv.AppendInt(a.bytes, n, 10)
	a.set(i, from)
}

// set sets an argument to the bytes from an index on. Spans that are copied to a larger array keep their
// values in the smaller one.
func (a *args) set(i, from int) {
	a.spans = append(a.spans, span{a, from, len(a.bytes)})
	a.all[i] = &a.spans[len(a.spans)-1]
}

func (a *args) text(s string)  { a.setText(a.more(1), s) }
func (a *args) number(n int64) { a.setNumber(a.more(1), n) }
func (a *args) flag(is bool) {
	if is {
		a.number(1)
	} else {
		a.number(0)
	}
}

func (a *args) float(x float64) { a.text(exact(x)) }

// joined adds an argument of several numbers and a text, with separators between them.
func (a *args) joined(separator byte, text string, numbers ...int64) {
	from := len(a.bytes)
	for _, n := range numbers {
		a.bytes = append(strconv.AppendInt(a.bytes, n, 10), separator)
	}
	a.bytes = append(a.bytes, text...)
	a.set(a.more(1), from)
}

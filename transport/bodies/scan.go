package bodies

import (
	"bytes"
	"net/http"
	"strings"
)

// Scanner reads a body as its bytes come. The zero Scanner reads nothing; make one with
// [NewScanner]. It is not safe for concurrent use.
type Scanner struct {
	doc     document
	kind    kind
	line    []byte   // the line that is not complete yet; for a document all of it so far
	long    bool     // the line is longer than mostLine, and doc has read its beginning
	data    bool     // a long line has data
	text    int      // bytes of text that the stream has brought
	textKey int      // the index in textKeys of the name that was found last
	textAt  int      // where it stood in its event
	event   [64]byte // the last line that is neither data nor empty, unless it is longer
	eventN  int
	before  []byte // what stood before the last text
	after   []byte // what stood after it
	usages  int    // lines that state usage
	last    []byte // the last of them, if it was not read yet
	ended   bool   // the last event of the stream has come, or the document is complete
	failure []byte // what a line says that may be an error
	over    bool
	skip    int // bytes of a frame that is not read
}

type kind byte

const (
	opaque kind = iota // other content, which is not read
	events
	whole // one JSON document
	frames
)

// mostLine is the most bytes of a line or document that are kept. A longer one is read for its usage alone.
const mostLine = 64 << 10

// NewScanner returns a Scanner for a body with this header. It reads server-sent events, JSON and
// event streams of AWS, and no other content. A compressed body must be decompressed before.
func NewScanner(header http.Header) *Scanner {
	s := &Scanner{}
	switch kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream":
		s.kind = events
	case "application/json", "application/problem+json", "application/graphql-response+json":
		s.kind = whole
	case "application/vnd.amazon.eventstream":
		s.kind = frames
	}
	s.doc.header(header)
	return s
}

// Write takes in the next bytes. It returns no error and keeps no part of p.
func (s *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	switch s.kind {
	case whole:
		s.extend(p)
	case frames:
		s.readFrames(p)
	case events:
		for {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				break
			}
			s.endLine(p[:i])
			p = p[i+1:]
		}
		if len(p) > 0 {
			s.extend(p)
		}
	}
	return n, nil
}

// extend adds bytes to the line. The document reads a line that is too long without keeping it.
func (s *Scanner) extend(p []byte) {
	if !s.long && len(s.line)+len(p) <= mostLine {
		if s.line == nil && s.kind == events {
			s.line = make([]byte, 0, 512)
		}
		s.line = append(s.line, p...)
		return
	}
	if !s.long {
		s.long, s.data = true, s.kind == whole
		s.doc.begin()
		before := s.line
		if s.kind == events {
			if len(before) < len(dataPrefix) { // it may be cut in its first letters
				before = append(before, p...)
				p = nil
			}
			s.notice(before)
			before, s.data = dataOf(before)
		}
		if s.data {
			s.doc.read(before)
		}
		s.line = s.line[:0]
	}
	if s.data {
		s.doc.read(p)
	}
}

// endLine takes in the last part of a line.
func (s *Scanner) endLine(p []byte) {
	if s.long {
		s.extend(p)
		s.long = false
		return
	}
	if len(s.line) > 0 {
		s.extend(p)
		if s.long {
			s.long = false
			return
		}
		p = s.line
		s.line = s.line[:0]
	}
	s.read(bytes.TrimSuffix(p, []byte("\r")))
}

var (
	dataPrefix  = []byte("data:")
	eventPrefix = []byte("event:")
)

// dataOf returns the data of a line of events.
func dataOf(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, dataPrefix)
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return rest, ok
}

// lasts are the last events of streams, as they stand in the data where no line names the event.
var lasts = [][]byte{[]byte("[DONE]"), []byte(`{"type":"message_stop"`), []byte(`{"type":"response.completed"`), []byte(`{"type":"response.incomplete"`)}

// notice remembers the last event of a stream.
func (s *Scanner) notice(line []byte) {
	if s.ended {
		return
	}
	if name, ok := bytes.CutPrefix(line, eventPrefix); ok {
		switch string(bytes.TrimSpace(name)) {
		case "message_stop", "response.completed", "response.incomplete":
			s.ended = true
		}
		return
	}
	if data, ok := dataOf(line); ok {
		for _, last := range lasts {
			s.ended = s.ended || bytes.HasPrefix(data, last)
		}
	}
}

var (
	usageWord = []byte(`"usage`) // and "usageMetadata"
	errorWord = []byte(`"error"`)
	null      = []byte("null")
	colon     = []byte(":")
)

// read takes in a line of a stream. Most lines bring nothing but another text, so they need no search.
func (s *Scanner) read(line []byte) {
	if len(line) == 0 || bytes.Equal(line, s.event[:s.eventN]) {
		return
	}
	data, ok := dataOf(line)
	if ok && s.again(data) {
		return
	}
	s.notice(line)
	if ok {
		s.readData(data)
	} else if s.eventN = copy(s.event[:], line); s.eventN < len(line) {
		s.eventN = 0
	}
}

// again reports whether an event is like the one before, but for its text, and counts that.
func (s *Scanner) again(data []byte) bool {
	n := len(data) - len(s.before) - len(s.after)
	if n < 1 || len(s.after) == 0 || !bytes.HasPrefix(data, s.before) || !bytes.HasSuffix(data, s.after) {
		return false
	}
	text := data[len(s.before) : len(s.before)+n]
	if text[n-1] == '\\' || bytes.IndexByte(text, '"') >= 0 {
		return false
	}
	s.text += n
	return true
}

// readData takes in the data of an event.
func (s *Scanner) readData(data []byte) {
	before, after := s.textOf(data)
	if bytes.Equal(before, s.before) && bytes.Equal(after, s.after) {
		return
	}
	s.before, s.after = append(s.before[:0], before...), append(s.after[:0], after...)
	if states(before, usageWord) || states(after, usageWord) {
		if s.usages++; s.usages <= readAtOnce {
			s.readUsage(data)
		} else {
			s.last = append(s.last[:0], data...)
		}
	}
	if states(before, errorWord) || states(after, errorWord) {
		s.failure = append(s.failure[:0], data...) // the last one ends the stream
	}
}

// readAtOnce is how many lines with usage are read when they come. They may state different counts. Later ones
// repeat counts that grow, so only the last of them is read.
const readAtOnce = 4

func (s *Scanner) readUsage(data []byte) {
	s.doc.begin()
	s.doc.read(data)
}

// states reports whether a name stands in a part of a line, with a value other than null.
func states(part, name []byte) bool {
	for {
		i := bytes.Index(part, name)
		if i < 0 {
			return false
		}
		escaped := i > 0 && part[i-1] == '\\'
		part = part[i+len(name):]
		if escaped {
			continue
		}
		_, value, found := bytes.Cut(part, colon)
		if !found || !bytes.HasPrefix(bytes.TrimLeft(value, " "), null) {
			return true
		}
	}
}

// textKeys are the names of what models produce.
var textKeys = [][]byte{[]byte(`"text":`), []byte(`"content":`), []byte(`"delta":`), []byte(`"partial_json":`), []byte(`"thinking":`), []byte(`"arguments":`), []byte(`"reasoning_content":`), []byte(`"input":`)}

// textOf returns what stands before and after the text that an event brings, and counts its bytes, to judge a stream
// that is cut. An event without text is all before. The name of the text mostly stands where it stood in the event
// before.
func (s *Scanner) textOf(data []byte) (before, after []byte) {
	if s.textAt < len(data) && bytes.HasPrefix(data[s.textAt:], textKeys[s.textKey]) {
		if before, after, ok := s.divide(data, s.textAt+len(textKeys[s.textKey])); ok {
			return before, after
		}
	}
	for k, key := range textKeys {
		at := bytes.Index(data, key)
		if at < 0 {
			continue
		}
		if before, after, ok := s.divide(data, at+len(key)); ok { // otherwise it is an object, whose text stands in it
			s.textKey, s.textAt = k, at
			return before, after
		}
	}
	return data, nil
}

// divide divides an event at the string that begins here.
func (s *Scanner) divide(data []byte, at int) (before, after []byte, ok bool) {
	for at < len(data) && data[at] == ' ' {
		at++
	}
	if at == len(data) || data[at] != '"' {
		return nil, nil, false
	}
	n := lengthOf(data[at+1:])
	s.text += n
	return data[:at+1], data[at+1+n:], true
}

// lengthOf returns the length of a JSON string until its closing quote.
func lengthOf(text []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], '"')
		if i < 0 {
			return len(text)
		}
		i += from
		slashes := 0
		for slashes < i && text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		from = i + 1
	}
}

// End says that no more bytes come. A body that is not whole was cut.
func (s *Scanner) End(whole bool) {
	if s.over {
		return
	}
	s.over = true
	switch s.kind {
	case frames:
		s.Usage() // reads the last event
	case opaque:
		s.ended = whole
	case events:
		if whole { // the rest of a line that is cut may lack numbers that belong together
			s.endLine(nil)
		}
		s.Usage() // reads the last line
		s.ended = s.ended || whole && s.doc.finished
	default:
		s.ended = whole
		if !s.long {
			s.doc.begin()
			s.doc.read(s.line)
			if bytes.Contains(s.line, errorsWord) {
				s.failure = s.line
			}
		}
	}
}

// errorsWord begins "error" and "errors".
var errorsWord = []byte(`"error`)

// Usage returns what the body has stated so far. It is final after End.
func (s *Scanner) Usage() Usage {
	if len(s.last) > 0 {
		s.readUsage(s.last)
		s.last = s.last[:0]
	}
	u := s.doc.usage()
	u.Complete = s.ended
	if !u.Complete {
		u.Output = max(u.Output, (s.text+bytesPerToken-1)/bytesPerToken)
	}
	return u
}

// Knows reports whether the body has stated the tokens of the prompt. It costs next to nothing.
func (s *Scanner) Knows() bool { return s.doc.known }

// bytesPerToken is how many bytes of text a token has, about.
const bytesPerToken = 4

// Bucket returns how many units the bucket of the limit holds, and how many come back per second, as Shopify states it.
// 0: the body does not say. It is final after End.
func (s *Scanner) Bucket() (holds, perSecond float64) { return s.doc.bucket, s.doc.restore }

// Failure returns the event or document that reports a failure in a response with status 200, for [Classify]. It is nil
// without such a report, and final after End.
func (s *Scanner) Failure() []byte {
	if s.failure == nil {
		return nil
	}
	var a answer
	if a.parse(s.failure); !a.failed() { // "error": null, for example
		return nil
	}
	return s.failure
}

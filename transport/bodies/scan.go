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
	line    []byte // the line that is not complete yet; for a document all of it so far
	long    bool   // the line is longer than mostLine, and doc has read its beginning
	data    bool   // a long line has data
	text    int    // bytes of text that the stream has brought
	textKey int    // the index in textKeys of the name that was found last
	ended   bool   // the last event of the stream has come, or the document is complete
	failure []byte // what a line says that may be an error
	over    bool
}

type kind byte

const (
	opaque kind = iota // other content, which is not read
	events
	whole // one JSON document
)

// mostLine is the most bytes of a line or document that are kept. A longer one is read for its usage alone.
const mostLine = 64 << 10

// NewScanner returns a Scanner for a body with this header. Content that is neither server-sent
// events nor JSON is not read. A compressed body must be decompressed before.
func NewScanner(header http.Header) *Scanner {
	s := &Scanner{}
	switch kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream":
		s.kind = events
	case "application/json", "application/problem+json", "application/graphql-response+json":
		s.kind = whole
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
	return bytes.TrimLeft(rest, " "), ok
}

// notice remembers the last event of a stream.
func (s *Scanner) notice(line []byte) {
	if name, ok := bytes.CutPrefix(line, eventPrefix); ok {
		switch string(bytes.TrimSpace(name)) {
		case "message_stop", "response.completed", "response.incomplete":
			s.ended = true
		}
		return
	}
	data, ok := dataOf(line)
	s.ended = s.ended || ok && (bytes.HasPrefix(data, []byte("[DONE]")) || bytes.HasPrefix(data, []byte(`{"type":"message_stop"`)) ||
		bytes.HasPrefix(data, []byte(`{"type":"response.completed"`)) || bytes.HasPrefix(data, []byte(`{"type":"response.incomplete"`)))
}

var (
	usageWords = []byte(`"usage`) // and "usageMetadata"
	errorWord  = []byte(`"error"`)
	null       = []byte("null")
)

// read takes in a line of a stream. Most lines bring text, so a document reads only lines that may state usage.
func (s *Scanner) read(line []byte) {
	s.notice(line)
	data, ok := dataOf(line)
	if !ok {
		return
	}
	if i := bytes.Index(data, usageWords); i >= 0 && !isNull(data[i:]) {
		s.doc.begin()
		s.doc.read(data)
	}
	if i := bytes.Index(data, errorWord); i >= 0 && !isNull(data[i:]) {
		s.failure = append(s.failure[:0], data...) // the last one ends the stream
	}
	s.countText(data)
}

// isNull reports whether the value that follows a name is null.
func isNull(rest []byte) bool {
	_, rest, found := bytes.Cut(rest, []byte{':'})
	return found && bytes.HasPrefix(bytes.TrimLeft(rest, " "), null)
}

// textKeys are the names of what models produce.
var textKeys = [][]byte{[]byte(`"text":`), []byte(`"content":`), []byte(`"delta":`), []byte(`"partial_json":`), []byte(`"thinking":`), []byte(`"arguments":`), []byte(`"reasoning_content":`)}

// countText counts the bytes of text that an event brings, to judge a stream that is cut.
func (s *Scanner) countText(data []byte) {
	for i := range textKeys {
		k := (s.textKey + i) % len(textKeys)
		at := bytes.Index(data, textKeys[k])
		if at < 0 {
			continue
		}
		value := bytes.TrimLeft(data[at+len(textKeys[k]):], " ")
		if len(value) == 0 || value[0] != '"' {
			continue // an object, whose text stands in it
		}
		s.textKey = k
		s.text += lengthOf(value[1:])
		return
	}
}

// lengthOf returns the length of a JSON string until its closing quote.
func lengthOf(text []byte) (n int) {
	for {
		i := bytes.IndexByte(text, '"')
		if i < 0 {
			return n + len(text)
		}
		slashes := 0
		for slashes < i && text[i-1-slashes] == '\\' {
			slashes++
		}
		n += i
		if slashes%2 == 0 {
			return n
		}
		n++
		text = text[i+1:]
	}
}

// End says that no more bytes come. A body that is not whole was cut.
func (s *Scanner) End(whole bool) {
	if s.over {
		return
	}
	s.over = true
	switch s.kind {
	case opaque:
		s.ended = whole
	case events:
		if whole { // the rest of a line that is cut may lack numbers that belong together
			s.endLine(nil)
		}
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
	u := s.doc.usage()
	u.Complete = s.ended
	if !u.Complete {
		u.Output = max(u.Output, (s.text+bytesPerToken-1)/bytesPerToken)
	}
	return u
}

// bytesPerToken is how many bytes of text a token has, about.
const bytesPerToken = 4

// Failure returns the event or document that may report a failure in a response with status 200,
// for [Classify]. It is nil if there is none, and final after End.
func (s *Scanner) Failure() []byte { return s.failure }

package bodies

import (
	"bytes"
	"encoding/binary"
)

// A frame of Amazon's event stream has its length, that of its headers and a checksum, the headers, a document, and
// another checksum.
const (
	prelude  = 12
	checksum = 4
)

var (
	metadata = []byte("metadata") // the last event, which states the usage
)

// readFrames takes in bytes of an event stream of Amazon. Longer frames than mostLine are not read.
func (s *Scanner) readFrames(p []byte) {
	for len(p) > 0 && s.kind == frames {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip, p = s.skip-n, p[n:]
			continue
		}
		want := prelude
		if len(s.line) >= prelude {
			want = int(binary.BigEndian.Uint32(s.line))
		}
		n := min(want-len(s.line), len(p))
		s.line, p = append(s.line, p[:n]...), p[n:]
		switch size := len(s.line); {
		case size < want:
		case size == prelude:
			s.beginFrame()
		default:
			s.endFrame()
			s.line = s.line[:0]
		}
	}
}

// beginFrame checks the lengths of a frame.
func (s *Scanner) beginFrame() {
	size, headers := uint64(binary.BigEndian.Uint32(s.line)), uint64(binary.BigEndian.Uint32(s.line[4:]))
	switch {
	case size < prelude+headers+checksum:
		s.kind = opaque // it is something else
	case size > mostLine:
		s.skip, s.line = int(size-prelude), s.line[:0] //nolint:gosec // 32 bits
	}
}

// endFrame takes in a whole frame.
func (s *Scanner) endFrame() {
	from := prelude + int(binary.BigEndian.Uint32(s.line[4:]))
	headers, data := s.line[prelude:from], s.line[from:len(s.line)-checksum]
	s.ended = s.ended || bytes.Contains(headers, metadata)
	if name, ok := exceptionOf(headers); ok && len(data) > 0 {
		s.failure = append(append(append(s.failure[:0], `{"error":{"__type":"`...), name...), `",`...)
		s.failure = append(append(s.failure, data[1:]...), '}') // the rest of the document
		return
	}
	s.readData(data)
}

// exceptionOf returns the name of the failure that a frame reports.
func exceptionOf(headers []byte) (name []byte, ok bool) {
	_, after, found := bytes.Cut(headers, []byte(":exception-type"))
	if !found || len(after) < 3 {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(after[1:])) // after the kind of its value, a string
	if after = after[3:]; n > len(after) || bytes.ContainsAny(after[:n], "\"\\") {
		return nil, false
	}
	return append(bytes.ToUpper(after[:min(1, n)]), after[min(1, n):n]...), true // as in responses that are no streams
}

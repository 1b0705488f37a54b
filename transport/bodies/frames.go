package bodies

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
)

// A frame of Amazon's event stream has its length, that of its headers and a checksum, the headers, a document, and
// another checksum.
const (
	prelude  = 12
	checksum = 4
)

// metricsWord names the usage in streams of InvokeModelWithResponseStream.
var metricsWord = []byte(`"amazon-bedrock-invocationMetrics"`)

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
	case size < prelude+headers+checksum || size > math.MaxInt32:
		s.kind = opaque // it is something else
	case size > mostLine:
		s.skip, s.line = int(size-prelude), s.line[:0] //nolint:gosec // 31 bits
	}
}

// endFrame takes in a whole frame.
func (s *Scanner) endFrame() {
	from := prelude + int(binary.BigEndian.Uint32(s.line[4:]))
	headers, data := s.line[prelude:from], s.line[from:len(s.line)-checksum]
	switch event := valueOf(headers, ":event-type"); string(event) {
	case "metadata":
		s.ended = true // the last event, which states the usage
	case "chunk": // an event in the model's own format; the last one states the usage
		var chunk struct {
			Bytes []byte `json:"bytes"`
		}
		if json.Unmarshal(data, &chunk) != nil {
			return
		}
		if data = chunk.Bytes; bytes.Contains(data, metricsWord) {
			s.ended = true
			s.readUsage(data)
			return
		}
	}
	name := valueOf(headers, ":exception-type")
	if name == nil {
		name = valueOf(headers, ":error-code")
	}
	if len(name) == 0 || bytes.ContainsAny(name, "\"\\") {
		s.readData(data)
		return
	}
	s.failure = append(append(s.failure[:0], `{"error":{"__type":"`...), bytes.ToUpper(name[:1])...) // as in responses that are no streams
	s.failure = append(append(s.failure, name[1:]...), '"')
	if members, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("{")); ok && json.Valid(data) {
		if members = bytes.TrimSpace(members); len(members) > 1 {
			s.failure = append(s.failure, ',')
		}
		s.failure = append(append(s.failure, members...), '}')
		return
	}
	s.failure = append(s.failure, "}}"...)
}

// valueOf returns the value of a header of a frame, and nil if it has none that is a string.
func valueOf(headers []byte, name string) []byte {
	_, after, found := bytes.Cut(headers, []byte(name+"\x07")) // the kind of the value
	if !found || len(after) < 2 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(after))
	if after = after[2:]; n > len(after) {
		return nil
	}
	return after[:n]
}

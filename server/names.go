package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// mostNames is the most names that one object of a body has.
const mostNames = 64

// scanner reads valid JSON once more, for the names that encoding/json accepts although they are wrong: names in
// another case, and names that are there twice.
type scanner struct {
	text []byte
	at   int
}

// value reads one value. It returns the path of the first wrong name in it, and what is wrong, or two empty
// texts. In the values of a key and of headers, names are the caller's own, and may have any case.
func (s *scanner) value(inKey bool) (field, fault string) {
	switch s.next() {
	case '{':
		var few [16][]byte
		seen := few[:0]
		for s.at++; s.next() != '}'; {
			name := s.name()
			switch {
			case slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, name) }):
				return string(name), "must be given once, got it twice"
			case !inKey && bytes.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }):
				return string(name), "is not a field: names of fields are in lower case"
			case len(seen) == mostNames:
				return string(name), "is one name too many: an object has at most " + strconv.Itoa(mostNames)
			}
			seen = append(seen, name)
			s.next()
			s.at++ // the colon
			if field, fault = s.value(inKey || string(name) == "key" || string(name) == "headers"); fault != "" {
				if field[0] != '[' {
					field = "." + field
				}
				return string(name) + field, fault
			}
			s.comma()
		}
		s.at++
	case '[':
		s.at++
		for i := 0; s.next() != ']'; i++ {
			if field, fault = s.value(inKey); fault != "" {
				return "[" + strconv.Itoa(i) + "]." + field, fault
			}
			s.comma()
		}
		s.at++
	case '"':
		s.name()
	default: // a number, true, false or null
		for s.at < len(s.text) && bytes.IndexByte([]byte(",]} \t\r\n"), s.text[s.at]) < 0 {
			s.at++
		}
	}
	return "", ""
}

// next skips white space, and returns the byte behind it.
func (s *scanner) next() byte {
	for bytes.IndexByte([]byte(" \t\r\n"), s.text[s.at]) >= 0 {
		s.at++
	}
	return s.text[s.at]
}

func (s *scanner) comma() {
	if s.next() == ',' {
		s.at++
	}
}

// name reads a string.
func (s *scanner) name() []byte {
	from := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	raw := s.text[from:s.at]
	if !slices.Contains(raw, '\\') {
		return raw[1 : len(raw)-1]
	}
	var name string
	_ = json.Unmarshal(raw, &name) // it is valid
	return []byte(name)
}

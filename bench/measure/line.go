package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fleetpace/fleetpace/internal/bare"
)

// line is one JSON line, its figures as they were written.
type line map[string]any

// parse finds the lines of JSON in what a program printed: those that begin with it or,
// where there is a prefix, what stands behind it.
func parse(output []byte, prefix string) ([]line, error) {
	var all []line
	for text := range bytes.Lines(output) {
		if prefix != "" {
			_, behind, found := bytes.Cut(text, []byte(prefix))
			if !found {
				continue
			}
			text = behind
		}
		if text = bytes.TrimSpace(text); !bytes.HasPrefix(text, []byte("{")) {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var l line
		if err := decoder.Decode(&l); err != nil {
			return nil, fmt.Errorf("not a line of JSON: %w: %s", err, text)
		}
		all = append(all, l)
	}
	return all, nil
}

// beside notes what a bare sleeper suffered; what a program says of its own gives way.
func (l line) beside(f bare.Figures) {
	l["bare_longest_ms"], l["bare_late_share"] = f.LongestMillis, f.LateShare
}

// json is the line with its measurement first.
func (l line) json() []byte {
	rest := make(line, len(l))
	for name, value := range l {
		if name != "measure" {
			rest[name] = value
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		panic(err) // it came from JSON
	}
	return fmt.Appendf(nil, "{\"measure\":%q,%s\n", l["measure"], text[1:])
}

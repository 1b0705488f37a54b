package limits

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"
)

// maxFile bounds a file of limits, in bytes: about ten thousand limits.
const maxFile = 1 << 20

// read returns the contents of a file. If the file is too large, it returns one byte more than
// maxFile. It refuses pipes and devices, which could block or be endless.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("limits: %w: %s is not a regular file", ErrInvalid, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("limits: read %s: %w", path, err)
	}
	return data, nil
}

// unreadable finds characters that YAML forbids, with their lines, which the parser does not
// report. It also finds other characters at which the parser would count lines differently than
// editors do.
func unreadable(data []byte) problems {
	var found problems
	line, told := 1, 0
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		wrong := ""
		switch {
		case r == utf8.RuneError && size == 1:
			wrong = fmt.Sprintf("must be UTF-8, got the byte %#x", data[0])
		case r == '\n' || r == '\r' || r == '\t':
		case unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r == '\uFFFE' || r == '\uFFFF':
			wrong = fmt.Sprintf("must not hold the control character %U", r)
		}
		if wrong != "" && told != line {
			found.add(line, "", "%s", wrong)
			told = line
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return found
}

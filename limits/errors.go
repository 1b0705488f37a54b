package limits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetpace/fleetpace/reserve"
)

// Each error says what to do. Test with errors.Is.
var (
	// ErrInvalid: the file or an argument is wrong, and the text says where. An [*Error] in
	// the chain lists what is wrong in the file. Correct it.
	ErrInvalid = reserve.ErrInvalid

	// ErrUnknown: the file has no limit of that name. It may have had one before it changed.
	ErrUnknown = errors.New("unknown limit")
)

// Error holds all problems of a file. It is an [ErrInvalid].
type Error struct {
	File     string    // the path of the file
	Problems []Problem // in the order of lines
}

// A Problem is one mistake in a file.
type Problem struct {
	Line   int    // from 1; 0: the file as a whole
	Path   string // such as limits[2].prefetch, where limits[0] is the first; empty: the file
	Reason string // what is wrong, and what to write instead
}

// mostProblems is how many problems the text of an error lists: a file that is not a file of limits
// has one in every line.
const mostProblems = 100

// Error lists the problems, one per line, as compilers do: the first 100 of them.
func (e *Error) Error() string {
	var lines []string
	for _, p := range e.Problems[:min(len(e.Problems), mostProblems)] {
		lines = append(lines, p.in(e.File))
	}
	if more := len(e.Problems) - mostProblems; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more", e.File, more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes an Error an ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

func (p Problem) in(file string) string {
	text := file + ": "
	if p.Line > 0 {
		text = fmt.Sprintf("%s:%d: ", file, p.Line)
	}
	if p.Path != "" {
		text += p.Path + ": "
	}
	return text + p.Reason
}

// problems collects the problems of a file.
type problems []Problem

func (p *problems) add(line int, path, format string, args ...any) {
	*p = append(*p, Problem{Line: line, Path: path, Reason: fmt.Sprintf(format, args...)})
}

// in returns the error, or nil if there is no problem.
func (p problems) in(file string) error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return &Error{File: file, Problems: p}
}

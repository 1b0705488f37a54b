// Command map draws the packages of the repository into CONTRIBUTING.md: an arrow for each
// import that no other arrow implies, and lines of code without tests. `make map` runs it.
package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	page  = "CONTRIBUTING.md"
	begin = "<!-- drawn by make map -->\n"
	end   = "<!-- end of the drawing -->\n"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "map:", err)
		os.Exit(1)
	}
}

// run draws the map of the repository at root into its page.
func run(root string) error {
	text, err := os.ReadFile(root + "/" + page)
	if err != nil {
		return err
	}
	packages, err := list(root)
	if err != nil {
		return err
	}
	drawn, err := into(string(text), draw(packages))
	if err != nil {
		return err
	}
	return os.WriteFile(root+"/"+page, []byte(drawn), 0o644)
}

// into puts a drawing into a page, between the marks.
func into(text, drawing string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("%s lacks the lines %q and %q", page, begin, end)
	}
	return before + begin + drawing + end + after, nil
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// draw is a Mermaid flowchart: public packages are framed boldly, and all have their lines, in
// hundreds, so that it does not change with every commit.
func draw(packages map[string]*pkg) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TB\n")
	names := slices.Sorted(maps.Keys(packages))
	for _, name := range names {
		class := ""
		if !strings.HasPrefix(name, "internal/") {
			class = ":::public"
		}
		fmt.Fprintf(&b, "  %s[\"%s<br/>%s\"]%s\n", id(name), name, size(packages[name].lines), class)
	}
	for _, name := range names {
		for _, imported := range direct(packages[name], packages) {
			fmt.Fprintf(&b, "  %s --> %s\n", id(name), id(imported))
		}
	}
	b.WriteString("  classDef public stroke-width:3px\n```\n")
	return b.String()
}

// id is a name without what Mermaid reads.
func id(name string) string { return strings.NewReplacer("/", "_", "-", "_").Replace(name) }

// size rounds lines to hundreds.
func size(lines int) string {
	if lines < 100 {
		return "under 100"
	}
	return fmt.Sprintf("%d00", (lines+50)/100)
}

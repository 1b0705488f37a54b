package world

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// table is the page of all planted mistakes.
const table = "testdata/mistakes.md"

// rowsOf returns the texts of each row of a list in a test, by the names of their fields or their order.
func rowsOf(t *testing.T, file, list string) (rows []map[string]string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != list || len(spec.Values) == 0 {
			return true
		}
		for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
			texts := map[string]string{}
			for i, e := range row.(*ast.CompositeLit).Elts {
				name := fmt.Sprint(i)
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					name, e = pair.Key.(*ast.Ident).Name, pair.Value
				}
				if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
					texts[name], _ = strconv.Unquote(text.Value)
				}
			}
			rows = append(rows, texts)
		}
		return false
	})
	require.NotEmpty(t, rows, "%s has no list %s", file, list)
	return rows
}

// The page says for each planted mistake which test finds it. FLEETPACE_PRINT=1 writes it.
func TestPageOfMistakes(t *testing.T) {
	var lines []string
	add := func(what, where, world, explorer, model string) {
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s |", what, where, world, explorer, model))
	}
	inWorld := map[string]string{}
	for _, m := range planted {
		inWorld[m.from] = fmt.Sprintf("%s, %v", m.law, m.in)
	}
	inExplorer := map[string]string{}
	for _, m := range rowsOf(t, "../../lua/explore/mistakes_test.go", "mistakes") {
		inExplorer[m["from"]] = m["law"] + ", world " + m["world"]
	}
	counts := map[string]int{}
	count := func(world, explorer string) {
		counts["all"]++
		switch {
		case world != "":
			counts["world"]++
		case explorer != "":
			counts["explorer"]++
		default:
			counts["model"]++
		}
	}
	seen := map[string]bool{}
	for _, m := range rowsOf(t, "../../lua/planted_test.go", "planted") {
		what, from := m["0"], m["2"]
		count(inWorld[from], inExplorer[from])
		seen[from] = true
		add(what, "scripts", inWorld[from], inExplorer[from], "yes")
	}
	for _, m := range planted {
		if !seen[m.from] {
			count(inWorld[m.from], inExplorer[m.from])
			add(m.what, "scripts", inWorld[m.from], inExplorer[m.from], "")
			seen[m.from] = true
		}
	}
	for _, m := range rowsOf(t, "../../lua/explore/mistakes_test.go", "mistakes") {
		if !seen[m["from"]] {
			count("", "yes")
			add(m["what"], "scripts", "", m["law"]+", world "+m["world"], "")
		}
	}
	known, byTest := map[string]string{}, map[bool]int{}
	for _, f := range foundMistakes(t) {
		if known[f.What] = "nothing finds it"; f.Law != "" {
			known[f.What] = f.Law + ", " + f.In
			byTest[f.Law == "engine"]++
		}
	}
	for _, m := range mistakes {
		add(m.what, "engine", cmp.Or(known[m.what], "not played yet"), "", "")
	}
	text := fmt.Sprintf("# Planted mistakes\n\nOf %d mistakes in the scripts the world finds %d, the explorer %d more, and the model alone %d. Of %d in the engine the world finds %d so far, and tests of the engine %d.\n\n"+
		"| mistake | in | the world finds it by law, in history | the explorer | the model |\n|---|---|---|---|---|\n%s\n",
		counts["all"], counts["world"], counts["explorer"], counts["model"], len(mistakes), byTest[false], byTest[true], strings.Join(lines, "\n"))
	if os.Getenv("FLEETPACE_PRINT") != "" {
		require.NoError(t, os.WriteFile(table, []byte(text), 0o600))
	}
	written, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Equal(t, text, string(written), "FLEETPACE_PRINT=1 go test ./internal/world -run TestPageOfMistakes writes %s", table)
}

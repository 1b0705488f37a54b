package integration

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/fleetpace/fleetpace/"

// mayImport says which packages of ours each package may import, and so that imports run
// one way. Examples may import all but each other.
var mayImport = map[string][]string{
	"lua":                 {}, // the scripts are a protocol that stands alone
	"lua/queue":           {},
	"internal/queuemodel": {},
	"reserve":             {"lua", "internal/calendar", "internal/fault", "internal/observe", "internal/outage"},
	"internal/turn":       {"reserve"},
	"worker":              {"reserve", "internal/turn"},
	"scheduler":           {"reserve", "internal/turn"},
	"serve":               {"reserve"},
	"limits":              {"reserve"},
	"transport":           {"reserve", "transport/headers"},
	"transport/headers":   {},
	"adaptive":            {"reserve", "lua"}, // it reads the keys and fields that lua documents
	"embedded":            {},
	"internal/bare":       {},
	"internal/calendar":   {},
	"internal/chart":      {"internal/provider"},
	"internal/fault":      {},
	"internal/outage":     {"internal/fault"},
	"internal/wire":       {"lua/queue", "internal/fault"},
	"internal/queue":      {},
	"internal/asker":      {"internal/fault", "internal/outage", "internal/queue", "internal/wire"},
	"internal/ledger":     {"internal/observe", "internal/provider"},
	"internal/model":      {},
	"internal/observe":    {},
	"internal/progress":   {},
	"internal/provider":   {},
	"internal/redistest":  {"embedded"},
	"integration":         {},

	"transport/internal/inprocess": {"reserve"},
}

// forTests are what only tests may import: users' builds do not pull it in.
var forTests = []string{"github.com/stretchr/testify", "github.com/testcontainers", module + "internal/redistest"}

func TestImportsRunOneWay(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	list.Dir = ".."
	out, err := list.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, list.Start())
	packages := json.NewDecoder(out)
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := packages.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		seen++
		name := strings.TrimPrefix(p.ImportPath, module)
		example := strings.HasPrefix(name, "examples/")
		may, known := mayImport[name]
		require.True(t, known || example, "%s is not in the table of this test: add what it may import", name)
		for _, imported := range p.Imports {
			if name != "internal/redistest" {
				for _, only := range forTests {
					require.False(t, strings.HasPrefix(imported, only), "%s imports %s, which is for tests", name, imported)
				}
			}
			ours, ok := strings.CutPrefix(imported, module)
			if !ok {
				continue
			}
			require.False(t, strings.HasPrefix(ours, "examples/") && !strings.HasPrefix(ours, name+"/"),
				"%s imports %s: examples are read, not imported", name, ours)
			require.True(t, example || slices.Contains(may, ours), "%s imports %s", name, ours)
		}
	}
	require.NoError(t, list.Wait())
	require.GreaterOrEqual(t, seen, len(mayImport))
}

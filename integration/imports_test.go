package integration

import (
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/fleetpace/fleetpace/"

// mayImport says which of our packages each package may import, so that imports go in one
// direction. Examples may import all packages, except each other.
var mayImport = map[string][]string{
	"docs":                 {},
	"docs/map":             {},
	"reservetest":          {"internal/delay", "internal/observe", "internal/provider", "lua", "reserve"},
	"reservetest/emulator": {},
	"lua":                  {}, // the scripts are a protocol that stands alone
	"lua/explore":          {"lua", "internal/smallredis", "internal/wire"},
	"internal/queuemodel":  {},
	"reserve":              {"lua", "internal/engine", "internal/calendar", "internal/fault", "internal/observe", "internal/meter", "internal/wire"},
	"internal/engine":      {"internal/fault", "internal/meter", "internal/wire"},
	"internal/wire":        {"lua", "internal/calendar", "internal/fault", "internal/meter"},
	"internal/meter":       {},
	"internal/scrape":      {},
	"monitor":              {"reserve", "internal/fleet"},
	"deploy":               {},
	"internal/fault":       {},
	"internal/calendar":    {},
	"internal/observe":     {},
	"internal/fleet":       {"lua", "reserve", "internal/fault", "internal/wire"},
	"internal/turn":        {"reserve"},
	"worker":               {"reserve", "internal/turn"},
	"scheduler":            {"reserve", "internal/turn", "worker"},
	"inbound":              {"reserve"},
	"server":               {"limits", "reserve", "inbound", "transport", "transport/bodies"},
	"serve":                {"inbound"}, // the earlier names of inbound and server
	"remote":               {"server"},
	"limits":               {"reserve"},
	"transport":            {"reserve", "internal/meter", "transport/bodies", "transport/headers"},
	"transport/bodies":     {},
	"llm":                  {"reserve", "transport", "transport/bodies"},
	"transport/headers":    {},
	"adaptive":             {"reserve", "lua"}, // it reads the keys and fields that lua documents
	"embedded":             {},
	"internal/asynqtest":   {"reserve", "internal/bubble", "internal/provider"},
	"internal/bare":        {},
	"internal/bubble":      {"reserve", "lua", "internal/delay", "internal/quick", "internal/redistest"},
	"internal/delay":       {},
	"internal/example/web": {},
	"internal/example":     {"embedded", "monitor", "reserve", "internal/provider", "internal/scrape"},
	"internal/chart":       {"internal/provider"},
	"internal/frozen":      {"lua"},
	"internal/ledger":      {"internal/observe", "internal/provider"},
	"internal/progress":    {},
	"internal/provider":    {},
	"internal/interpreter": {},
	"internal/quick":       {"internal/interpreter"},
	"internal/redistest":   {"embedded"},
	"internal/smallredis":  {"internal/interpreter"},
	"internal/world":       {"lua", "reserve", "internal/engine", "internal/fault", "internal/frozen", "internal/smallredis", "internal/wire"},
	"integration":          {},

	"cmd/fleetpace":                {"internal/fault", "internal/fleet", "internal/scrape", "limits", "lua", "monitor", "reserve", "server"},
	"transport/internal/inprocess": {"reserve"},
}

// helpers are packages that only tests import, so users' builds do not contain them.
var helpers = []string{"internal/asynqtest", "internal/bubble", "internal/delay", "internal/frozen", "internal/ledger", "internal/queuemodel", "internal/quick", "internal/redistest", "internal/world", "reservetest", "reservetest/emulator"}

// forTests are packages that only tests and helpers may import.
var forTests = []string{"github.com/stretchr/testify", "github.com/testcontainers"}

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
			if !slices.Contains(helpers, name) {
				for _, only := range forTests {
					require.False(t, strings.HasPrefix(imported, only), "%s imports %s, which is for tests", name, imported)
				}
				require.NotContains(t, helpers, strings.TrimPrefix(imported, module), "%s imports %s, which is for tests", name, imported)
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

// mostModules is how many modules a program that imports reserve builds, in addition to those of
// go-redis: the API of OpenTelemetry with what it needs, and golang.org/x/time.
const mostModules = 7

// A user of reserve takes in few modules.
func TestModulesOfReserve(t *testing.T) {
	more := modulesOf(t, module+"reserve")
	for of := range modulesOf(t, "github.com/redis/go-redis/v9") {
		delete(more, of)
	}
	delete(more, strings.TrimSuffix(module, "/"))
	names := slices.Sorted(maps.Keys(more))
	require.LessOrEqual(t, len(names), mostModules, "%q", names)
	require.Contains(t, names, "go.opentelemetry.io/otel")
}

// modulesOf returns the modules that a program which imports a package builds.
func modulesOf(t *testing.T, name string) map[string]bool {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", name)
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	modules := map[string]bool{}
	for _, line := range strings.Fields(string(out)) {
		modules[line] = true
	}
	return modules
}

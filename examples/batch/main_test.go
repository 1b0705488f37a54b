package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/example"
)

// asChild makes the test binary the program itself, so that tests can kill it.
const asChild = "BATCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(command(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// someAddresses is a JSONL file with n records, and their IDs. The demo API fails
// in its first call for so many of them as unlucky says, evenly spread.
func someAddresses(t *testing.T, n, unlucky int) (path string, ids []string) {
	t.Helper()
	var text strings.Builder
	failing := 0
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprintf("order-%06d", i)
		fails, wanted := example.FailsFirst(id), (len(ids)+1)*unlucky/n > failing
		if fails != wanted {
			continue
		}
		if fails {
			failing++
		}
		ids = append(ids, id)
		fmt.Fprintf(&text, `{"id":%q,"street":"Gartenweg %d","postcode":"04103","city":"Leipzig","country":"DE"}`+"\n", id, i+1)
	}
	require.Equal(t, unlucky, failing)
	path = filepath.Join(t.TempDir(), "in.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	return path, ids
}

// readResults reads a journal the plain way: every line must be a whole result.
func readResults(t *testing.T, path string) []example.Result {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var results []example.Result
	for line := range strings.Lines(string(data)) {
		var res example.Result
		require.NoError(t, json.Unmarshal([]byte(line), &res), "line %q", line)
		require.True(t, strings.HasSuffix(line, "\n"), "line %q", line)
		results = append(results, res)
	}
	return results
}

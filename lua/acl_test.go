package lua

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules list what the scripts call, and the commands that run scripts and hear news. That
// each is needed, and all are enough, is shown in integration/acl_test.go.
func TestACLIsWhatTheScriptsCall(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	called := []string{"+eval", "+evalsha", "+ping", "+subscribe"}
	call := regexp.MustCompile(`\b(?:p?call|erase)\('(\w+)'`)
	named := regexp.MustCompile(`\b(?:p?call|erase)\([^.]`)
	for _, file := range files {
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		matches := call.FindAllSubmatch(script, -1)
		require.Len(t, named.FindAll(script, -1), len(matches), "%s: each call names its command", file)
		for _, match := range matches {
			called = append(called, "+"+strings.ToLower(string(match[1])))
		}
	}
	slices.Sort(called)

	var allowed []string
	for _, rule := range strings.Split(ACL("fleetpace")+" "+ACLNews("fleetpace")+" "+ACLServer, " ") {
		if rule[0] == '+' {
			allowed = append(allowed, rule)
		}
	}
	slices.Sort(allowed)
	require.Equal(t, slices.Compact(called), allowed)
}

// What the page about Redis tells to type are these rules.
func TestACLOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/redis.md")
	require.NoError(t, err)
	for _, rules := range []string{
		"ACL SETUSER fleetpace on >secret " + ACL("fleetpace") + "\n",
		"`" + ACLNews("fleetpace") + "`", "`" + ACLObserver("fleetpace") + "`", "`" + ACLCluster + "`", "`" + ACLServer + "`", "`" + ACLSentinel + "`",
	} {
		require.True(t, strings.Contains(string(page), rules), "the page lacks %s", rules)
	}
}

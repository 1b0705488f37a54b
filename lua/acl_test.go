package lua_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
)

// The rules list what the scripts call, and the two commands that run scripts.
// That each is needed, and all are enough, is shown in integration/acl_test.go.
func TestACLIsWhatTheScriptsCall(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	called := []string{"+eval", "+evalsha", "+ping", "+subscribe", "+unsubscribe"}
	call := regexp.MustCompile(`redis\.p?call\(\s*'(\w+)'`)
	for _, file := range files {
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range call.FindAllSubmatch(script, -1) {
			called = append(called, "+"+strings.ToLower(string(match[1])))
		}
		calls := strings.Count(string(script), "redis.call(") + strings.Count(string(script), "redis.pcall(")
		require.Len(t, call.FindAllString(string(script), -1), calls, "%s: each call names its command", file)
	}
	slices.Sort(called)

	var allowed []string
	for _, rule := range strings.Split(lua.ACL("fleetpace")+" "+lua.ACLNews("fleetpace"), " ") {
		if rule[0] == '+' {
			allowed = append(allowed, rule)
		}
	}
	slices.Sort(allowed)
	require.Equal(t, slices.Compact(called), allowed)
}

// What the README tells to type are these rules.
func TestACLOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, rules := range []string{
		"ACL SETUSER fleetpace on >secret " + lua.ACL("fleetpace") + "\n",
		"`" + lua.ACLNews("fleetpace") + "`",
		"`" + lua.ACLCluster + "`",
		"`" + lua.ACLWarning + "`",
		"`" + lua.ACLSentinel + "`",
	} {
		require.Contains(t, string(readme), rules)
	}
}

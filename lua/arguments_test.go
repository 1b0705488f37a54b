package lua

import (
	"fmt"
	"go/format"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// head.lua has the protocol and names the positions of arguments and keys, and state.lua names those of the
// values in the field queue. arguments.go has the same for Go: -update writes it.
func TestArguments(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "// Code generated from head.lua and state.lua by go test ./lua -run TestArguments -update. DO NOT EDIT.\n\npackage lua")
	protocol := regexp.MustCompile(`(?m)^local PROTOCOL = '(\d+)'$`).FindStringSubmatch(head)
	require.NotNil(t, protocol)
	fmt.Fprintf(&b, "\n// Protocol is the number of the protocol that these scripts speak: see Versions.\nconst Protocol = %s\n", protocol[1])
	for _, of := range []struct{ first, prefix, many, doc string }{
		{"NOW", "Arg", "ArgsOfAll", "Positions of the arguments that all scripts have, from 0: head.lua explains them."},
		{"KIND", "Limit", "ArgsOfLimit", "Positions of the arguments of a limit, from 0. The first limit begins at ArgsOfAll."},
		{"STATE", "Key", "KeysOfLimit", "Positions of the keys of a limit, from 0."},
	} {
		line := regexp.MustCompile(`(?m)^local (` + of.first + `, [A-Z, ]+) = ([\d, ]+)$`).FindStringSubmatch(head)
		require.NotNil(t, line, of.first)
		fmt.Fprintf(&b, "\n// %s\nconst (\n", of.doc)
		names, positions := strings.Split(line[1], ", "), strings.Split(line[2], ", ")
		for i, name := range names {
			require.Equal(t, fmt.Sprint(i+1), positions[i], name)
			fmt.Fprintf(&b, "%s = %d\n", of.prefix+name[:1]+strings.ToLower(name[1:]), i)
		}
		fmt.Fprintf(&b, "%s = %d // how many there are\n)\n", of.many, len(names))
	}
	queue := regexp.MustCompile(`(?m)^  local (total, .+) = match\(was\[20\]`).FindStringSubmatch(state)
	require.NotNil(t, queue)
	fmt.Fprint(&b, "\n// Positions of the values in the field queue of a state, from 0: state.lua explains them.\nconst (\n")
	for i, name := range strings.Split(queue[1], ", ") {
		fmt.Fprintf(&b, "Queue%s = %d\n", strings.ToUpper(name[:1])+name[1:], i)
	}
	fmt.Fprintln(&b, ")")
	text, err := format.Source([]byte(b.String()))
	require.NoError(t, err)
	if *flagUpdate {
		require.NoError(t, os.WriteFile("arguments.go", text, 0o600))
	}
	written, err := os.ReadFile("arguments.go")
	require.NoError(t, err)
	require.Equal(t, string(text), string(written), "run with -update to take this over")
}

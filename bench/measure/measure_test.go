package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bare"
)

func TestLinesAreFoundInWhatIsPrinted(t *testing.T) {
	all, err := parse([]byte("of 3 records\n{\"done\":3,\"utilization\":0.1000,\"limits\":[{\"n\":1}]}\n"), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	all[0]["measure"] = "example"
	all[0].beside(bare.Figures{LongestMillis: 1.5, LateShare: 0.01})
	require.Equal(t, `{"measure":"example","bare_late_share":0.01,"bare_longest_ms":1.5,"done":3,"limits":[{"n":1}],"utilization":0.1000}`+"\n", string(all[0].json()))

	all, err = parse([]byte("=== RUN TestFault\n    a_test.go:9: FAULT {\"fault\":\"latency\",\"errors\":{\"x\":1}}\n{\"other\":1}\n--- FAIL: TestFault\n"), "FAULT ")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "latency", all[0]["fault"])

	_, err = parse([]byte("{\"cut"), "")
	require.ErrorContains(t, err, `not a line of JSON`)
}

func TestTheTableHasWhatThereIs(t *testing.T) {
	all, err := parse([]byte(`{"measure":"fault","fault":"oom","refused":0,"lost":0,"utilization":0.98765,"recovered_ms":123456,"bare_longest_ms":3.5}
{"measure":"speed","case":"memory","contender":"ping","ns_per_op":null}
{"measure":"fault","fault":"latency","refused":2,"lost":0,"utilization":1,"recovered_ms":-1,"exit_status":1}`), "")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, printTable(&out, all))
	require.Equal(t, `
speed
case    contender
memory  ping

fault
fault    refused  lost  utilization  recovered_ms  bare_longest_ms  exit_status
oom      0        0     0.9877       123456        3.5              -
latency  2        0     1            -1            -                1
`, out.String())
}

// program is a script that stands for a program of ours.
func program(t *testing.T, script string) (programs string, r run) {
	t.Helper()
	programs = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(programs, "p"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return programs, run{measure: "example", what: "p", program: "p", dir: "."}
}

func TestNoFigureFailsARun(t *testing.T) {
	programs, r := program(t, `echo '{"refused":99}'; exit 1`)
	var out, table bytes.Buffer
	require.NoError(t, take(t.Context(), []run{r}, programs, &out, &table, io.Discard))
	require.Contains(t, out.String(), `"refused":99`)
	require.Contains(t, out.String(), `"bare_longest_ms":`)
	require.Contains(t, out.String(), `"exit_status":1`)
	require.Contains(t, table.String(), "99")
}

func TestAProgramThatCanNotRunFailsAndTheOthersRun(t *testing.T) {
	programs, works := program(t, `echo '{"done":1}'`)
	missing, broken := works, works
	missing.program, missing.source = "q", "./no-such-package"
	require.NoError(t, os.WriteFile(filepath.Join(programs, "broken"), []byte("#!/bin/sh\necho no Redis >&2; exit 3\n"), 0o700))
	broken.program = "broken"
	var out bytes.Buffer
	err := take(t.Context(), []run{missing, broken, works}, programs, &out, io.Discard, io.Discard)
	require.ErrorContains(t, err, "no-such-package")
	require.ErrorContains(t, err, "exit status 3: no Redis")
	require.Contains(t, out.String(), `"done":1`)
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{"-only (": "-only", "all": `argument "all"`} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want)
	}
	o, err := parseOptions([]string{"-only", "^example batch$"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, chosen(o.only), 1)
}

package lua

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// TestCommandLine runs the redis-cli lines of the package documentation, word
// for word but for the server and the name of the keys.
func TestCommandLine(t *testing.T) {
	server := redistest.New(t)
	for _, name := range []string{"bash", "redis-cli"} {
		if _, err := exec.LookPath(name); err != nil {
			const message = "to run the lines of the documentation, install %s: %v"
			if strings.Contains(os.Getenv("FLEETPACE_REQUIRE"), "redis") {
				t.Fatalf(message, name, err)
			}
			t.Skipf(message, name, err)
		}
	}
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "//\t$ "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	require.Len(t, lines, 9, "the lines in doc.go that start with $")

	// Their line lives for two seconds. On a machine that takes longer than that
	// they are tried again.
	for {
		prefix := redistest.Prefix(t)
		var replies [][]string
		start := time.Now()
		for _, line := range lines {
			require.True(t, strings.HasPrefix(line, "redis-cli --eval "), line)
			line = strings.ReplaceAll(line, "redis-cli", "redis-cli -u "+server.URL())
			line = strings.ReplaceAll(line, "p:{n}:", prefix+":{n}:")
			var problems bytes.Buffer
			command := exec.Command("bash", "-c", line)
			command.Stderr = &problems
			out, err := command.Output()
			require.NoError(t, err, "%s\n%s", line, problems.String())
			replies = append(replies, strings.Split(strings.TrimSpace(string(out)), "\n"))
		}
		slow := time.Since(start) > 1500*time.Millisecond
		require.NoError(t, patient(t, server).Del(context.Background(), Keys(prefix, "n", "")...).Err())
		if slow {
			continue
		}

		take, claim, cancel, charge, inspect := replies[0], replies[1], replies[2], replies[3], replies[4]
		require.Equal(t, []string{"-1000000", "1", "0", "0", "1", "0", "0", "1", "1000000", "0", "2", "1", "1", "0"}, take[2:],
			"one of two permits is left; plain; no pause, nothing moved, of number 1, the limit; final, number 1, no wait")
		require.Equal(t, take[0], claim[0], "epoch")
		require.Equal(t, []string{"1", "2", "0"}, claim[HeadLength:], "final, number 2, no wait")
		require.Equal(t, []string{"1"}, cancel, "it went back")
		require.Equal(t, take[0], charge[0], "epoch")
		require.Len(t, charge, HeadLength)
		named := make(map[string]string)
		for i := 0; i+1 < len(inspect); i += 2 {
			named[inspect[i]] = inspect[i+1]
		}
		require.Equal(t, "1", named["tail"])
		require.NotEqual(t, "0", named["waitMicros"], "what was charged has to come first")
		require.Equal(t, "0", named["waiting"])
		require.Equal(t, "0", named["free"])
		require.Equal(t, "1000000", named["intervalMicros"])
		require.Equal(t, "2", named["burst"])
		require.Equal(t, take[0], named["epoch"])
		quick := replies[5]
		require.Equal(t, "1", quick[1], "after number 1")
		require.Equal(t, "1", quick[4], "one permit")
		pause, resume, set := replies[6], replies[7], replies[8]
		require.Equal(t, "5000000", pause[7])
		require.Equal(t, []string{"0", "2"}, resume[7:9], "no pause; moved twice")
		require.Equal(t, []string{"3", "2", "2000000", "0", "1"}, set[8:], "moved again, of number 2, the limit")
		return
	}
}

package limits_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

const good = `# Limits of our own.
limits:
  - name: openai-requests
    limit: 500/minute burst 10
  - name: openai-day
    limit: 2000/day quota in Europe/Berlin
    kind: quota
  - name: shop
    key: "{shop}/{token}"
    limit: 2/s burst 40
    kind: paced
    group: g
    prefetch: 2s
    max-pause: 1h
    outage: wait
  - {name: estimates, limit: 20/s warmup 10s, kind: warming up, settles: true, group: g, lease: 0}
  - name: yes # a text, as is no
    limit: "100/10s rolling margin 50ms"
    kind: rolling
`

func TestParse(t *testing.T) {
	for _, text := range []string{good, strings.ReplaceAll(good, "\n", "\r\n"), "\ufeff" + good, "---\n" + good + "...\n"} {
		found, err := limits.Parse(unused(t), file, []byte(text))
		require.NoError(t, err)
		require.Equal(t, []string{
			"openai-requests: 500/minute burst 10",
			"openai-day: 2000/day quota in Europe/Berlin",
			"shop: 2/s burst 40, group g, prefetch 2s, max-pause 1h0m0s, outage wait, key {shop}/{token}",
			"estimates: 20/s warmup 10s, group g, settles",
			"yes: 100/10s rolling margin 50ms",
		}, found)
	}
}

// What a limit does not say is as the defaults have it, and what it says is its own, also
// where that is nothing.
func TestDefaults(t *testing.T) {
	here(t, `
limits:
  - {name: a, limit: 1/s}
  - {name: b, limit: 1/s, prefetch: 0, max-pause: 0s, outage: local, settles: true, group: h}
`)
	log := newLog()
	set := load(t, reserve.Config{
		Logger: log.Logger, Group: "g", Prefetch: 2, MaxPause: 3,
		Outage: reserve.Outage{Policy: reserve.PolicyFail},
	})
	write(t, "limits: [{name: c, limit: 1/s}]")
	_, err := set.Reload()
	require.NoError(t, err)
	require.Equal(t, []string{
		"INFO fleetpace: a limit was added file=limits.yaml limit=c is=1/s, group g, prefetch 2ns, max-pause 3ns, outage fail",
		"INFO fleetpace: a limit was removed file=limits.yaml limit=a was=1/s, group g, prefetch 2ns, max-pause 3ns, outage fail",
		"INFO fleetpace: a limit was removed file=limits.yaml limit=b was=1/s, group h, settles, outage local",
	}, log.lines())
}

// Whatever is in a file, it is refused with lines that it has, or it is a file that reads
// the same again and whose limits reserve takes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, c := range badFiles {
		f.Add([]byte(c.text))
	}
	client := unused(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := limits.Parse(client, file, data)
		if err == nil {
			require.NotEmpty(t, found)
			again, err := limits.Parse(client, file, data)
			require.NoError(t, err)
			require.Equal(t, found, again)
			return
		}
		var all *limits.Error
		require.ErrorAs(t, err, &all)
		require.NotEmpty(t, all.Problems)
		last := 0
		for _, p := range all.Problems {
			require.NotEmpty(t, p.Reason)
			require.GreaterOrEqual(t, p.Line, last)
			last = p.Line
		}
		breaks := strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		require.LessOrEqual(t, last, breaks+2)
	})
}

// Keys of different values differ, whatever the values hold.
func FuzzKey(f *testing.F) {
	f.Add("{a}/{b}", "x", "y", "x/y", "z")
	f.Add("{a}%25{b}", "%2F", "/", "/", "%2F")
	f.Add("k:{a}::{b}!", ":", ":x", "::", "x")
	f.Fuzz(func(t *testing.T, template, a1, b1, a2, b2 string) {
		one, err := limits.Fill(template, map[string]string{"a": a1, "b": b1})
		if err != nil {
			return
		}
		two, err := limits.Fill(template, map[string]string{"a": a2, "b": b2})
		if err != nil {
			return
		}
		require.Equal(t, a1 == a2 && b1 == b2, one == two, "%q %q", one, two)
	})
}

// The file of this package's page and of its examples is a good one.
func TestDocumentedFile(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "//\tlimits:\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "//\n")
	require.True(t, found)
	lines, err := limits.Parse(unused(t), "doc.go", []byte("limits:\n"+strings.ReplaceAll(text, "//\t", "")))
	require.NoError(t, err)
	require.Len(t, lines, 3)
}

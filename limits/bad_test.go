package limits_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// Whatever is wrong with a file is told at once, by line, and in these words.
func TestBadFiles(t *testing.T) {
	for _, c := range badFiles {
		t.Run(c.name, func(t *testing.T) {
			here(t, c.text)
			err := limits.Check(file, reserve.Config{})
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, limits.ErrInvalid)
			var all *limits.Error
			require.ErrorAs(t, err, &all)
			require.Len(t, all.Problems, strings.Count(c.want, "\n")+1)

			_, err = limits.Load(unused(t), file, reserve.Config{})
			require.EqualError(t, err, c.want)
		})
	}
}

var badFiles = []struct{ name, text, want string }{
	{"nothing", "", `limits.yaml: is empty: it needs a list named limits`},
	{"only a comment", "# nothing\n", `limits.yaml: is empty: it needs a list named limits`},
	{"an empty document", "---\n", `limits.yaml: is empty: it needs a list named limits`},
	{"null", "~\n", `limits.yaml: is empty: it needs a list named limits`},
	{"another field", "a: b\n", `limits.yaml:1: unknown field "a": there is only limits
limits.yaml:1: has no list named limits`},
	{"a list at the top", "- a\n", `limits.yaml:1: must be one field, limits, got a list`},
	{"a text", "hello\n", `limits.yaml:1: must be one field, limits, got "hello"`},
	{"no list", "limits:\n", `limits.yaml:1: limits: must be a list, got nothing`},
	{"an empty list", "limits: []\n", `limits.yaml:1: limits: must not be empty`},
	{"fields for the list", "limits: {}\n", `limits.yaml:1: limits: must be a list, got fields`},
	{"a number for the list", "limits: 5\n", `limits.yaml:1: limits: must be a list, got "5"`},
	{"two lists and a field", `limits:
  - name: a
    limit: 1/s
limits:
  - name: b
    limit: 1/s
version: 1
`, `limits.yaml:4: limits: is there twice, first in line 1
limits.yaml:7: unknown field "version": there is only limits`},
	{"two documents", `limits:
  - name: a
    limit: 1/s
---
limits: []
`, `limits.yaml:4: must be one document, and here begins another`},
	{"an open bracket", `limits:
  - name: a
    limit: [1/s
`, `limits.yaml:4: did not find expected ',' or ']', while parsing a flow sequence that begins in line 3`},
	{"an open quote", `limits:
  - name: "a
    limit: 1/s
`, `limits.yaml:4: found unexpected end of stream, while scanning a quoted scalar that begins in line 2`},
	{"a tab", "limits:\n\t- name: a\n", `limits.yaml:2: found character that cannot start any token, while scanning for the next token`},
	{"bytes that are no text", "limits:\n  - name: a\x00\n    limit: 1/s\n  - name: \xff\n", `limits.yaml:2: must not hold the control character U+0000
limits.yaml:4: must be UTF-8, got the byte 0xff`},
	{"a line separator", "limits:\n  - name: a\n    limit: 1/s\u2028\n", `limits.yaml:3: must not hold the control character U+2028`},
	{"aliases and a merge key", `limits:
  - &a
    name: a
    limit: 1/s
  - *a
  - <<: *a
    name: *a
`, `limits.yaml:5: limits[1]: must not be an alias: write out what it stands for
limits.yaml:6: limits[2]: unknown field "<<": there are name, limit, key, flow, weights, version, plans, kind, group, settles, prefetch, max-waiting, max-pause and outage
limits.yaml:6: limits[2]: has no limit
limits.yaml:7: limits[2].name: must not be an alias: write out what it stands for`},
	{"tags", `limits:
  - name: !!binary aGVsbG8=
    limit: !x 1/s
  - !x
    name: c
`, `limits.yaml:2: limits[0].name: must have no tag, got "!!binary"
limits.yaml:3: limits[0].limit: must have no tag, got "!x"
limits.yaml:4: limits[1]: must have no tag, got "!x"`},
	{"numbers for all", `limits:
  - name: 5
    limit: 5
    kind: 5
    settles: 5
    group: 5
    prefetch: 5
    max-pause: 5
    outage: 5
    key: 5
`, `limits.yaml:2: limits[0].name: must be a text: write "5" in quotes
limits.yaml:3: limits[0].limit: has no slash between permits and period (in "5"; for example "100/s" or "1000/minute burst 200")
limits.yaml:4: limits[0].kind: must be paced, warming up, quota, rolling or slots, got "5"
limits.yaml:5: limits[0].settles: must be true or false, got "5"
limits.yaml:6: limits[0].group: must be a text: write "5" in quotes
limits.yaml:7: limits[0].prefetch: must be a duration such as 500ms, got "5"
limits.yaml:8: limits[0].max-pause: must be a duration such as 500ms, got "5"
limits.yaml:9: limits[0].outage: must be local, wait, fail or open, got "5"
limits.yaml:10: limits[0].key: must be a text: write "5" in quotes`},
	{"nothing for all, or lists", `limits:
  - name:
    limit: ~
    kind: ''
    prefetch: []
    key: {shop}
`, `limits.yaml:2: limits[0].name: is empty
limits.yaml:3: limits[0].limit: is empty
limits.yaml:4: limits[0].kind: is empty
limits.yaml:5: limits[0].prefetch: must be a text, got a list
limits.yaml:6: limits[0].key: must be a text, got fields`},
	{"fields twice and unknown, a name twice", `limits:
  - name: shop
    limit: 1/s
    burst: 5
    ? [a]
    : b
    name: shop
  - name: shop
    limit: 2/s
`, `limits.yaml:4: limits[0]: unknown field "burst": there are name, limit, key, flow, weights, version, plans, kind, group, settles, prefetch, max-waiting, max-pause and outage
limits.yaml:5: limits[0]: unknown field that is no text: there are name, limit, key, flow, weights, version, plans, kind, group, settles, prefetch, max-waiting, max-pause and outage
limits.yaml:7: limits[0].name: is there twice, first in line 2
limits.yaml:8: limits[1].name: "shop" is the name of another limit, in line 2`},
	{"entries that are no limits", `limits:
  -
  - a
  - []
  - limit: 1/s
  - name: x
  - {}
`, `limits.yaml:2: limits[0]: must be fields, such as name and limit, got nothing
limits.yaml:3: limits[1]: must be fields, such as name and limit, got "a"
limits.yaml:4: limits[2]: must be fields, such as name and limit, got a list
limits.yaml:5: limits[3]: has no name
limits.yaml:6: limits[4]: has no limit
limits.yaml:7: limits[5]: has no name and no limit`},
	{"kinds that differ", `limits:
  - name: a
    limit: 2/s burst 40
    kind: quota
  - name: b
    limit: 2000/day quota in Europe/Berlin
    kind: paced
  - name: c
    limit: 5/s
    kind: warming up
  - name: d
    limit: 5/s
    kind: Rolling
`, `limits.yaml:4: limits[0].kind: must be paced, the kind of the limit "2/s burst 40", got "quota"
limits.yaml:7: limits[1].kind: must be quota, the kind of the limit "2000/day quota in Europe/Berlin", got "paced"
limits.yaml:10: limits[2].kind: must be paced, the kind of the limit "5/s", got "warming up"
limits.yaml:13: limits[3].kind: must be paced, warming up, quota, rolling or slots, got "Rolling"`},
	{"limits out of bounds", `limits:
  - name: a
    limit: NaN/s
  - name: b
    limit: 1e309/s
  - name: c
    limit: 1e300/s
  - name: d
    limit: 1/s burst 99999999999999999999
  - name: e
    limit: 1/99999999999h
  - name: f
    limit: -1/s
  - name: g
    limit: 2000/day quota in Local
`, `limits.yaml:3: limits[0].limit: permits must be a decimal number, got "NaN" (in "NaN/s"; for example "100/s" or "1000/minute burst 200")
limits.yaml:5: limits[1].limit: permits must be a decimal number, got "1e309" (in "1e309/s"; for example "100/s" or "1000/minute burst 200")
limits.yaml:7: limits[2].limit: rate must be at most 1000000 per second, got 1e+300: count in larger units (in "1e300/s"; for example "100/s" or "1000/minute burst 200")
limits.yaml:9: limits[3].limit: burst must be a whole number, got "99999999999999999999" (in "1/s burst 99999999999999999999"; for example "100/s" or "1000/minute burst 200")
limits.yaml:11: limits[4].limit: period must be s, minute, hour, day or a duration such as 10s, got "99999999999h" (in "1/99999999999h"; for example "100/s" or "1000/minute burst 200")
limits.yaml:13: limits[5].limit: rate must be a number above 0, got -1 (in "-1/s"; for example "100/s" or "1000/minute burst 200")
limits.yaml:15: limits[6].limit: time zone must be one of the time zone database, got "Local" (in "2000/day quota in Local"; for example "100/s" or "1000/minute burst 200")`},
	{"settings out of bounds", `limits:
  - name: a
    limit: 1/s
    settles: maybe
    prefetch: 2m
    max-pause: -1s
    outage: shrug
  - name: b
    limit: 1/s
    inline-bound: 500ms
    prefetch: 1e9s
  - name: c
    limit: 1/s
    inline_bound: strict
    max-pause: 9999999999999h
`, `limits.yaml:4: limits[0].settles: must be true or false, got "maybe"
limits.yaml:5: limits[0].prefetch: must be from 0 to 1m, got 2m0s
limits.yaml:6: limits[0].max-pause: must be 0, for none, or above, got -1s
limits.yaml:7: limits[0].outage: must be local, wait, fail or open, got "shrug"
limits.yaml:10: limits[1].inline-bound: no longer exists: every limit grants turns at most half a second early; leave it out
limits.yaml:11: limits[1].prefetch: must be a duration such as 500ms, got "1e9s"
limits.yaml:14: limits[2].inline_bound: no longer exists: every limit grants turns at most half a second early; leave it out
limits.yaml:15: limits[2].max-pause: must be a duration such as 500ms, got "9999999999999h"`},
	{"settings that do not go together", `limits:
  - name: a
    limit: 1/s
    settles: true
    prefetch: 1s
  - name: b
    limit: 100/day quota
    prefetch: 1s
  - name: c:d
    limit: 1/s
    group: g
  - name: e
    limit: 1/s
    group: "{g}"
`, `limits.yaml:2: limits[0]: is not for a limit that settles, got 1s with Config.Settles
limits.yaml:6: limits[1]: is for paced limits only, got 1s with a limit of kind quota
limits.yaml:9: limits[2]: must not hold a colon in a group, got "c:d"
limits.yaml:14: limits[3].group: must not hold a brace, got "{g}": the name is the hash tag of all keys`},
	{"weights", `limits:
  - name: a
    limit: 1/s
    weights: {acme: 3}
  - name: b
    limit: 1/s
    flow: "{tenant}"
    weights: 3
  - name: c
    limit: 1/s
    flow: "{tenant}"
    weights:
      acme: much
      free: 0
      [a]: 1
      acme: 2
      hooli: .nan
    weights: {}
`, `limits.yaml:4: limits[0].weights: need a flow, such as {tenant}
limits.yaml:8: limits[1].weights: must be weights by name, such as {acme: 3, default: 1}, got "3"
limits.yaml:13: limits[2].weights.acme: must be a number, got "much"
limits.yaml:14: limits[2].weights.free: must be from 1e-06 to 1e+06, got 0
limits.yaml:15: limits[2].weights: must be by name, got a list
limits.yaml:16: limits[2].weights.acme: is there twice
limits.yaml:17: limits[2].weights.hooli: must be a number, got ".nan"
limits.yaml:18: limits[2].weights: is there twice, first in line 12`},
	{"an alias bomb", "limits: &a [*a, *a]\n", `limits.yaml:1: limits[0]: must not be an alias: write out what it stands for
limits.yaml:1: limits[1]: must not be an alias: write out what it stands for`},
	{"an alias of itself", "limits:\n  - &a {name: *a}\n", `limits.yaml:2: limits[0].name: must not be an alias: write out what it stands for
limits.yaml:2: limits[0]: has no limit`},
}

// Names, limits and keys that are too long, cannot be seen or mean nothing.
func TestBadTexts(t *testing.T) {
	for _, c := range []struct{ field, text, want string }{
		{"name", `"a\nb"`, `must hold no control characters, got "a\nb"`},
		{"name", `"\u202eevil"`, `must hold no control characters, got "\u202eevil"`},
		{"name", `" a"`, `must not begin or end with a space, got " a"`},
		{"name", `"{a}"`, `must not hold a brace, got "{a}": the name is the hash tag of all keys`},
		{"name", strings.Repeat("n", 129), `must be at most 128 bytes, got 129`},
		{"name", strings.Repeat("n", 300_000), `must be at most 256 bytes, got 300000`},
		{"limit", strings.Repeat("1", 300_000), `must be at most 256 bytes, got 300000`},
		{"limit", `"1/s\0"`, `period must be s, minute, hour, day or a duration such as 10s, got "s\x00"` +
			` (in "1/s\x00"; for example "100/s" or "1000/minute burst 200")`},
		{"key", "shop", `must have a name in braces, such as {account}, got "shop": leave it out if all calls share one limit`},
		{"key", `"{shop"`, `has an opening brace without a closing one: "{shop"`},
		{"key", `"shop}"`, `has a closing brace without an opening one: "shop}"`},
		{"key", `"{a}}"`, `has a closing brace without an opening one: "{a}}"`},
		{"key", `"{{a}}"`, `must have names of 1 to 64 letters, digits, _ and - in its braces, got "{a"`},
		{"key", `"{}"`, `must have names of 1 to 64 letters, digits, _ and - in its braces, got ""`},
		{"key", `"{a b}"`, `must have names of 1 to 64 letters, digits, _ and - in its braces, got "a b"`},
		{"key", `"{a}{b}"`, `must have a punctuation mark other than % after {a}`},
		{"key", `"{a}x{b}"`, `must have a punctuation mark other than % after {a}`},
		{"key", `"{a}2{b}"`, `must have a punctuation mark other than % after {a}`},
		{"key", `"{a}%{b}"`, `must have a punctuation mark other than % after {a}`},
		{"key", `"{a}/{a}"`, `has {a} twice`},
		{"key", `"\a{a}"`, `must hold no control characters, got "\a{a}"`},
		{"key", strings.Repeat("k", 513), `must be at most 512 bytes, got 513`},
		{"flow", "tenant", `must have a name in braces, such as {account}, got "tenant": leave it out if all calls share one limit`},
		{"flow", strings.Repeat("k", 513), `must be at most 512 bytes, got 513`},
	} {
		other := "name: a"
		if c.field == "name" {
			other = "limit: 1/s"
		}
		if c.field == "key" || c.field == "flow" {
			other += "\n    limit: 1/s"
		}
		here(t, fmt.Sprintf("limits:\n  - %s: %s\n    %s\n", c.field, c.text, other))
		err := limits.Check(file, reserve.Config{})
		var all *limits.Error
		require.ErrorAs(t, err, &all, c.text)
		require.Equal(t, limits.Problem{Line: 2, Path: "limits[0]." + c.field, Reason: c.want}, all.Problems[0])
	}
}

// Files that are too large, too deep or endless are refused soon.
func TestHostileFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"too large", strings.Repeat("#", 1<<20+1), "limits.yaml: is larger than 1048576 bytes"},
		{"open brackets", strings.Repeat("[", 1<<20), "limits.yaml:1: exceeded max depth of 10000, while increasing flow level"},
		{"lists in lists", strings.Repeat("- ", 1<<19), "limits.yaml:1: exceeded max depth of 10000, while increasing indent level"},
		{"a long text", "limits: " + strings.Repeat("x", 1<<19), `limits.yaml:1: limits: must be a list, got "` + strings.Repeat("x", 64) + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			here(t, c.text)
			require.EqualError(t, limits.Check(file, reserve.Config{}), c.want)
		})
	}

	// The text of an error stays readable, and the error has all.
	here(t, "limits:\n"+strings.Repeat("  -\n", 1000))
	err := limits.Check(file, reserve.Config{})
	var all *limits.Error
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Problems, 1000)
	require.Equal(t, 100, strings.Count(err.Error(), "\n"))
	require.True(t, strings.HasSuffix(err.Error(), "\nlimits.yaml: and 900 more"))
}

// What is no file is refused before it blocks anybody.
func TestNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.ErrorIs(t, limits.Check("missing.yaml", reserve.Config{}), os.ErrNotExist)
	require.EqualError(t, limits.Check(".", reserve.Config{}), "limits: invalid: . is not a regular file")
	require.EqualError(t, limits.Check("/dev/zero", reserve.Config{}), "limits: invalid: /dev/zero is not a regular file")
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	require.EqualError(t, limits.Check("pipe", reserve.Config{}), "limits: invalid: pipe is not a regular file")
}

// Defaults that are wrong are told once, and not of each limit.
func TestBadDefaults(t *testing.T) {
	here(t, "limits:\n  - name: a\n    limit: 1/s\n  - name: b\n    limit: 1/s\n")
	for _, c := range []struct {
		defaults reserve.Config
		want     string
	}{
		{reserve.Config{Name: "a"}, "limits: invalid defaults: Name and Limit must not be set, as the file has them"},
		{reserve.Config{Limit: reserve.PerSecond(1)}, "limits: invalid defaults: Name and Limit must not be set, as the file has them"},
		{reserve.Config{Prefetch: -1}, "limits: invalid defaults: reserve: invalid Config.Prefetch: must be from 0 to 1m, got -1ns"},
		{reserve.Config{Prefix: "{x}"}, `limits: invalid defaults: reserve: invalid Config.Prefix: must not hold a brace, got "{x}": the name is the hash tag of all keys`},
	} {
		_, err := limits.Load(unused(t), file, c.defaults)
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, limits.ErrInvalid)
		require.EqualError(t, limits.Check(file, c.defaults), c.want)
	}
	_, err := limits.Load(nil, file, reserve.Config{})
	require.ErrorIs(t, err, limits.ErrInvalid)
	require.ErrorContains(t, err, "client: must not be nil")
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	_, err = limits.Load(ring, file, reserve.Config{})
	require.EqualError(t, err, "limits: invalid defaults: reserve: invalid client: must not be a *redis.Ring: when a shard fails, a ring moves its keys to"+
		" another one without their state, and the limit would start over; use Sentinel or Cluster")
	require.ErrorIs(t, err, limits.ErrInvalid)
}

// What the parser of YAML does not expect of itself is an error of the file.
func TestParserPanics(t *testing.T) {
	require.EqualError(t, limits.Guard(func() error { panic("impossible") }), "cannot be read as YAML: impossible")
	require.ErrorIs(t, limits.Guard(func() error { return os.ErrClosed }), os.ErrClosed)
}

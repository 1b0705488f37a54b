package limits_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

const planned = `
limits:
  - name: api
    limit: 1/s
    key: "{shop}/{token}"
    version: 7
    plans:
      gold: {limit: 50/s burst 20, keys: [acme/t1, "globex/{token}"]}
      silver: {limit: 5/s, keys: ["{shop}/test-{n}", "eu-{shop}/{token}"]}
`

// A key has the limit of its plan: of the key itself, or else of the first pattern of the file that fits.
func TestPlansOfAFile(t *testing.T) {
	here(t, planned)
	log := newLog()
	set := load(t, reserve.Config{Logger: log.Logger})
	limit := func(shop, token string) string {
		return of(t, set, "api", "shop", shop, "token", token).Limit().String()
	}
	for of, want := range map[[2]string]string{
		{"acme", "t1"}:         "50/s burst 20",
		{"acme", "t2"}:         "1/s",
		{"acme", "test-1"}:     "5/s",
		{"globex", "test-1"}:   "50/s burst 20",
		{"globex", "a/b"}:      "50/s burst 20",
		{"glo", "bex/t1"}:      "1/s",
		{"globex/x", "t"}:      "1/s",
		{"eu-x", "t"}:          "5/s",
		{"acme", "not-test-1"}: "1/s",
		{"acme\n", "test-\n"}:  "5/s",
	} {
		require.Equal(t, want, limit(of[0], of[1]), of)
	}

	changed := `
limits:
  - {name: api, limit: 2/s, key: "{shop}/{token}", version: %d, plans: {gold: {limit: 60/s burst 20, keys: [acme/t1]}}}
`
	for _, version := range []int{6, 7} {
		write(t, fmt.Sprintf(changed, version))
		_, err := set.Reload()
		require.EqualError(t, err, fmt.Sprintf("limits.yaml:3: limits[0].version: must be above 7, as the limit or its plans have changed since, got %d", version))
		require.Equal(t, "50/s burst 20", limit("acme", "t1"))
	}
	kept := of(t, set, "api", "shop", "acme", "token", "t1")
	write(t, fmt.Sprintf(changed, 8))
	changes, err := set.Reload()
	require.NoError(t, err)
	require.Equal(t, limits.Changes{Changed: []string{"api"}}, changes)
	require.Equal(t, []string{"INFO fleetpace: a limit has changed file=limits.yaml limit=api" +
		" was=1/s, key {shop}/{token}, plans of version 7 (2)" +
		" is=2/s, key {shop}/{token}, plans of version 8 (1)"}, log.lines())
	require.Equal(t, "60/s burst 20", limit("acme", "t1"))
	require.Equal(t, "2/s", limit("eu-x", "t"))
	require.Equal(t, "60/s burst 20", kept.Limit().String(), "a limiter that was replaced follows")
	changes, err = set.Reload()
	require.NoError(t, err)
	require.False(t, changes.Any())
}

// Calls that wait follow another plan when the file is read again, also those of another process that has not read
// it yet. If only the plans change, the limiter stays.
func TestPlansReloadWhileCallsWait(t *testing.T) {
	text := `limits: [{name: api, limit: 1/minute, key: "{customer}", version: %d, plans: {gold: {limit: %s, keys: [acme]}}}]`
	here(t, fmt.Sprintf(text, 1, "1/minute"))
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(t)
		var sets []*limits.Set
		for range 2 {
			set, err := limits.Load(b, file, reserve.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = set.Close() })
			sets = append(sets, set)
		}
		before := of(t, sets[0], "api", "customer", "acme")
		var calls sync.WaitGroup
		for i := range 40 {
			calls.Go(func() { assert.NoError(t, of(t, sets[i%2], "api", "customer", "acme").Wait(t.Context())) })
		}
		time.Sleep(time.Second)
		write(t, fmt.Sprintf(text, 2, "20/s"))
		_, err := sets[0].Reload()
		require.NoError(t, err)
		began := time.Now()
		calls.Wait()
		require.Less(t, time.Since(began), 4*time.Second)
		require.Equal(t, "20/s", before.Limit().String())
		require.Equal(t, "1200/minute", of(t, sets[1], "api", "customer", "acme").Limit().String())
	})
}

// Plans that are wrong are told with their lines.
func TestBadPlans(t *testing.T) {
	for text, want := range map[string]string{
		`plans: {gold: {limit: 2/s, keys: [a]}}, key: "{k}"`: `plans: need a version: a number that grows with each change of the limit and its plans, such as 20261126`,
		`version: 1, plans: {gold: {limit: 2/s, keys: [a]}}`: `plans: need a key, such as {customer}`,
		`version: 1`:                                                                              `version: needs plans`,
		`version: soon, key: "{k}", plans: {}`:                                                    `version: must be a whole number from 1 to 4503599627370496, got "soon": raise it with each change of the limit and its plans`,
		`version: 1, key: "{k}", plans: [gold]`:                                                   `plans: must be plans by name, such as {gold: {limit: 50/s, keys: [acme]}}, got a list`,
		`version: 1, key: "{k}", plans: {gold: 5/s}`:                                              `plans.gold: must be the fields limit and keys, got "5/s"`,
		`version: 1, key: "{k}", plans: {gold: {limit: 5/s}}`:                                     `plans.gold: has no keys`,
		`version: 1, key: "{k}", plans: {gold: {keys: [a]}}`:                                      `plans.gold: has no limit`,
		`version: 1, key: "{k}", plans: {gold: {limit: fast, keys: [a]}}`:                         `plans.gold.limit: `,
		`version: 1, key: "{k}", plans: {gold: {limit: 5/s, keys: a}}`:                            `plans.gold.keys: must be a list of keys, got "a"`,
		`version: 1, key: "{k}", plans: {gold: {limit: 5/s, keys: [5]}}`:                          `plans.gold.keys[0]: must be a text: write "5" in quotes`,
		`version: 1, key: "{k}", plans: {gold: {limit: 5/s, keys: ["{a"]}}`:                       `plans.gold.keys[0]: has an opening brace without a closing one: "{a"`,
		`version: 1, key: "{k}", plans: {a: {limit: 5/s, keys: [x]}, b: {limit: 6/s, keys: [x]}}`: `plans.b.keys[0]: "x" has a plan already`,
		`version: 1, key: "{k}", plans: {gold: {limit: 5/s, keys: [a], size: 3}}`:                 `plans.gold: unknown field "size": there are limit and keys`,
		`version: 1, key: "{k}", plans: {gold: {limit: 5 at once, keys: [a]}}`:                    `plans: "gold" must be slots if the limit is slots, and only then; the limit is 1/s, got 5 at once`,
	} {
		here(t, fmt.Sprintf("limits:\n  - {name: a, limit: 1/s, %s}\n", text))
		err := limits.Check(file, reserve.Config{})
		require.ErrorIs(t, err, limits.ErrInvalid, text)
		require.ErrorContains(t, err, "limits.yaml:2: limits[0]."+want, text)
	}
	here(t, "limits: [{name: a, limit: 1/s}]")
	err := limits.Check(file, reserve.Config{LimitOf: func(string) (reserve.Limit, int64) { return reserve.Limit{}, 0 }})
	require.EqualError(t, err, "limits: invalid defaults: LimitOf must not be set: write plans into the file")
}

package headers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// now is the moment of all answers here, on the provider's clock.
var now = time.Date(2025, 8, 21, 12, 41, 0, 0, time.UTC)

// answer reads lines of "Name: value", as curl -i shows them.
func answer(t *testing.T, lines string) http.Header {
	t.Helper()
	header := http.Header{}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		require.True(t, ok, line)
		header.Add(name, strings.TrimSpace(value))
	}
	return header
}

// TestRetryAfter reads when to come back, in all forms in which it is said.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		want        time.Duration
	}{
		{"nothing", "", 0},
		{"seconds", "Retry-After: 120", 2 * time.Minute},
		{"with a fraction", "Retry-After: 2.0", 2 * time.Second},
		{"half a second", "Retry-After: 0.5", 500 * time.Millisecond},
		{"now", "Retry-After: 0", 0},
		{"IMF date", "Retry-After: Thu, 21 Aug 2025 12:42:30 GMT", 90 * time.Second},
		{"RFC 850 date", "Retry-After: Thursday, 21-Aug-25 12:42:30 GMT", 90 * time.Second},
		{"asctime date", "Retry-After: Thu Aug 21 12:42:30 2025", 90 * time.Second},
		{"a date that has passed", "Retry-After: Thu, 21 Aug 2025 12:00:00 GMT", 0},
		{"milliseconds win", "Retry-After: 22\nRetry-After-Ms: 21420", 21420 * time.Millisecond},
		{"Azure's", "X-Ms-Retry-After-Ms: 1500", 1500 * time.Millisecond},
		{"milliseconds that are none", "Retry-After: 22\nRetry-After-Ms: soon", 22 * time.Second},
		{"the longer of two", "Retry-After: 1\nRetry-After: 30", 30 * time.Second},
		{"one of two is no number", "Retry-After: x\nRetry-After: 3", 3 * time.Second},
		{"absurd", "Retry-After: 99999999999999999999", headers.Longest},
		{"an absurd date", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", headers.Longest},
		{"negative", "Retry-After: -5", 0},
		{"exponent", "Retry-After: 1e9", 0},
		{"infinite", "Retry-After: inf", 0},
		{"no number", "Retry-After: NaN", 0},
		{"two points", "Retry-After: 1.2.3", 0},
		{"a point", "Retry-After: .", 0},
		{"words", "Retry-After: in a while", 0},
		{"empty", "Retry-After:", 0},
		{"endless", "Retry-After: " + strings.Repeat("9", 5000), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := headers.Read(http.StatusTooManyRequests, answer(t, c.lines), now)
			assert.True(t, a.Refused)
			assert.Equal(t, c.want, a.After)
		})
	}
}

// TestForms reads a time in each form that providers send it, under each name: they mix them.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"90", 90 * time.Second, true},
		{"90.5", 90500 * time.Millisecond, true},
		{"0", 0, true},
		{"1755780150", 90 * time.Second, true}, // seconds since 1970
		{"1755780150.25", 90250 * time.Millisecond, true},
		{"1755780150250", 90250 * time.Millisecond, true}, // milliseconds since 1970
		{"1755780000", 0, true},                           // has passed
		{"1m30s", 90 * time.Second, true},
		{"450ms", 450 * time.Millisecond, true},
		{"2025-08-21T12:42:30Z", 90 * time.Second, true},
		{"2025-08-21T14:42:30+02:00", 90 * time.Second, true},
		{"2025-08-21T12:42:30.5Z", 90500 * time.Millisecond, true},
		{"2025-08-21T12:43Z", 2 * time.Minute, true}, // Jira
		{"2025-08-21T14:43+02:00", 2 * time.Minute, true},
		{"2025-08-21T12:42:30+0000", 90 * time.Second, true},
		{"2025-08-21 12:42:30 UTC", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 12:42:30 GMT", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 12:42:30 UTC", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 12:42:30 Z", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 08:42:30 EDT", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 05:42:30 PDT", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 14:42:30 +0200", 90 * time.Second, true},
		{"Thursday, 21-Aug-25 12:42:30 GMT", 90 * time.Second, true},
		{"Thursday, 21-Aug-25 08:42:30 EDT", 90 * time.Second, true},
		{"Thu, 21-Aug-2025 12:42:30 GMT", 90 * time.Second, true},
		{"Thu Aug 21 12:42:30 2025", 90 * time.Second, true},
		{"Thu, 21 Aug 2025 14:42:30 XYZ", 0, false}, // nobody knows where that is
		{"Thursday, 21-Aug-25 14:42:30 CEST", 0, false},
		{"Thu, 21 Aug 2025 12:42:30", 0, false},
		{"2025-08-21T12:42:30", 0, false}, // of which zone?
		{"2025-08-21", 0, false},
		{"-90", 0, false},
		{"-1m", 0, false},
		{"tomorrow", 0, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			a := headers.Read(429, answer(t, "Retry-After: "+c.text), now)
			assert.Equal(t, c.want, a.After, "Retry-After")
			assert.Equal(t, c.ok, a.Named, "Retry-After")
			for _, family := range []string{"X-RateLimit-Limit: 60\nX-RateLimit-Reset: ", "RateLimit-Limit: 60\nRateLimit-Reset: ", "X-Rate-Limit-Limit: 60\nX-Rate-Limit-Reset: ",
				"X-RateLimit-Limit-Requests: 60\nX-RateLimit-Reset-Requests: ", "X-RateLimit-Limit: 60\nX-RateLimit-Reset-After: "} {
				a := headers.Read(200, answer(t, family+c.text), now)
				require.Len(t, a.Windows, 1)
				assert.Equal(t, c.want, a.Windows[0].Reset, "%s", family)
			}
		})
	}
}

// TestRepeat: Retry-After is read at every status, for the call itself; only a refusal is about
// others, too.
func TestRepeat(t *testing.T) {
	for _, status := range []int{200, 202, 301, 403, 408, 409, 425, 429, 500, 502, 503, 504, 529} {
		a := headers.Read(status, answer(t, "Retry-After: 7"), now)
		assert.True(t, a.Named, status)
		assert.Equal(t, 7*time.Second, a.Repeat, status)
		assert.Equal(t, a.Refused, a.After > 0, status)
		a = headers.Read(status, answer(t, ""), now)
		assert.False(t, a.Named, status)
		assert.Zero(t, a.Repeat, status)
	}
}

// TestCached: an answer from a cache says nothing of the limits, whatever it says.
func TestCached(t *testing.T) {
	const full = "Retry-After: 60\nX-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\n"
	for _, c := range []struct {
		lines  string
		cached bool
	}{{"Age: 1", true}, {"Age: 3600", true}, {"X-From-Cache: 1", true}, {"Age: 0", false}, {"Age: old", false}, {"X-Cache: MISS", false}} {
		for _, status := range []int{200, 403, 429, 503} {
			a := headers.Read(status, answer(t, full+c.lines), now)
			assert.Equal(t, c.cached, a.Cached, "%d %s", status, c.lines)
			if c.cached {
				assert.Equal(t, headers.Advice{Cached: true}, a, "%d %s", status, c.lines)
			} else {
				assert.NotEmpty(t, a.Windows)
			}
		}
	}
}

// TestClocks: what counts is how long after the answer's own Date a moment is.
func TestClocks(t *testing.T) {
	for name, skew := range map[string]time.Duration{"right": 0, "an hour slow": -time.Hour, "a day fast": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			a := headers.Read(429, answer(t, `
				Date: Thu, 21 Aug 2025 12:41:00 GMT
				Retry-After: Thu, 21 Aug 2025 12:42:30 GMT
				X-RateLimit-Limit: 60
				X-RateLimit-Remaining: 0
				X-RateLimit-Reset: 1755780150`), now.Add(skew))
			assert.Equal(t, 90*time.Second, a.After)
			require.Len(t, a.Windows, 1)
			assert.Equal(t, 90*time.Second, a.Windows[0].Reset)
		})
	}
	a := headers.Read(429, answer(t, "Date: yesterday\nRetry-After: Thu, 21 Aug 2025 12:42:30 GMT"), now)
	assert.Equal(t, 90*time.Second, a.After, "without a Date it is the local clock")
}

// TestRefused: which answers refuse because of a limit.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		lines  string
		want   headers.Advice // without its windows
	}{
		{"429 that says nothing", 429, "", headers.Advice{Refused: true}},
		{"503 that says nothing", 503, "", headers.Advice{}},
		{"503 that says when", 503, "Retry-After: 5", headers.Advice{Refused: true, After: 5 * time.Second}},
		{"503 that says now", 503, "Retry-After: 0", headers.Advice{Refused: true}},
		{"overloaded", 529, "Retry-After: 5", headers.Advice{Refused: true, After: 5 * time.Second}},
		{"accepted, ready later", 202, "Retry-After: 5", headers.Advice{}},
		{"moved", 301, "Retry-After: 5", headers.Advice{}},
		{"no access", 403, "", headers.Advice{}},
		{"no access, with calls left", 403, "X-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1755780150", headers.Advice{}},
		{"GitHub, primary", 403, `
			X-RateLimit-Limit: 5000
			X-RateLimit-Remaining: 0
			X-RateLimit-Used: 5000
			X-RateLimit-Reset: 1755782460
			X-RateLimit-Resource: core`, headers.Advice{Refused: true, After: 40 * time.Minute}},
		{"GitHub, secondary", 403, `
			Retry-After: 60
			X-RateLimit-Limit: 5000
			X-RateLimit-Remaining: 4711
			X-RateLimit-Reset: 1755782460
			X-RateLimit-Resource: core`, headers.Advice{Refused: true, After: time.Minute}},
		{"GitHub, secondary, 429", 429, "Retry-After: 60", headers.Advice{Refused: true, After: time.Minute}},
		{"Stripe", 429, "Stripe-Rate-Limited-Reason: global-concurrency\nStripe-Should-Retry: true",
			headers.Advice{Refused: true, Reason: "global-concurrency"}},
		{"Jira Cloud", 429, "Retry-After: 5\nRateLimit-Reason: jira-quota-global-based", headers.Advice{Refused: true, After: 5 * time.Second, Reason: "jira-quota-global-based"}},
		{"HubSpot, in a day", 429, "X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: 0", headers.Advice{Refused: true}},
		{"AWS", 429, "X-Amz-Retry-After: 1500", headers.Advice{Refused: true, After: 1500 * time.Millisecond}},
		{"Stripe, final", 429, "Stripe-Should-Retry: false", headers.Advice{Refused: true, Final: true}},
		{"OpenAI, no credit", 429, "X-Should-Retry: false", headers.Advice{Refused: true, Final: true}},
		{"a bucket that is empty does not say when the next call is due", 429, `
			X-RateLimit-Limit-Requests: 60
			X-RateLimit-Remaining-Requests: 0
			X-RateLimit-Reset-Requests: 1m0s`, headers.Advice{Refused: true}},
		{"a reason that is none", 429, "Stripe-Rate-Limited-Reason: " + strings.Repeat("x", 100), headers.Advice{Refused: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := headers.Read(c.status, answer(t, c.lines), now)
			a.Windows, a.Named, a.Repeat = nil, false, 0
			assert.Equal(t, c.want, a)
		})
	}
}

// TestWindows reads samples of each family.
func TestWindows(t *testing.T) {
	const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour
	for _, c := range []struct {
		name, lines string
		want        []headers.Window
	}{
		{"OpenAI: per minute, as the reset tells", `
			x-ratelimit-limit-requests: 5000
			x-ratelimit-limit-tokens: 160000
			x-ratelimit-remaining-requests: 4999
			x-ratelimit-remaining-tokens: 159976
			x-ratelimit-reset-requests: 12ms
			x-ratelimit-reset-tokens: 9ms`, []headers.Window{
			{Name: "requests", Unit: "requests", Limit: 5000, Remaining: 4999, Reset: 12 * time.Millisecond, Period: minute, Refills: true},
			{Name: "tokens", Unit: "tokens", Limit: 160000, Remaining: 159976, Reset: 9 * time.Millisecond, Period: minute, Refills: true},
		}},
		{"OpenAI: numbers that do not agree tell no period", `
			x-ratelimit-limit-requests: 60
			x-ratelimit-limit-tokens: 150000
			x-ratelimit-remaining-requests: 59
			x-ratelimit-remaining-tokens: 149984
			x-ratelimit-reset-requests: 1s
			x-ratelimit-reset-tokens: 6m0s`, []headers.Window{
			{Name: "requests", Unit: "requests", Limit: 60, Remaining: 59, Reset: time.Second, Period: minute, Refills: true},
			{Name: "tokens", Unit: "tokens", Limit: 150000, Remaining: 149984, Reset: 6 * minute},
		}},
		{"OpenAI: a small account counts requests per day", `
			x-ratelimit-limit-requests: 200
			x-ratelimit-remaining-requests: 199
			x-ratelimit-reset-requests: 7m12s`, []headers.Window{
			{Name: "requests", Unit: "requests", Limit: 200, Remaining: 199, Reset: 432 * time.Second, Period: day, Refills: true},
		}},
		{"Groq: requests per day, tokens per minute", `
			x-ratelimit-limit-requests: 14400
			x-ratelimit-limit-tokens: 18000
			x-ratelimit-remaining-requests: 14370
			x-ratelimit-remaining-tokens: 17997
			x-ratelimit-reset-requests: 2m59.56s
			x-ratelimit-reset-tokens: 10ms`, []headers.Window{
			{Name: "requests", Unit: "requests", Limit: 14400, Remaining: 14370, Reset: 179560 * time.Millisecond, Period: day, Refills: true},
			{Name: "tokens", Unit: "tokens", Limit: 18000, Remaining: 17997, Reset: 10 * time.Millisecond, Period: minute, Refills: true},
		}},
		{"Cerebras: the name says the period", `
			x-ratelimit-limit-requests-day: 1000000000
			x-ratelimit-limit-tokens-minute: 60000
			x-ratelimit-remaining-requests-day: 999997455
			x-ratelimit-remaining-tokens-minute: 54032
			x-ratelimit-reset-requests-day: 33011.382867
			x-ratelimit-reset-tokens-minute: 11.382867`, []headers.Window{
			{Name: "requests-day", Unit: "requests", Limit: 1e9, Remaining: 999997455, Reset: 33011382867 * time.Microsecond, Period: day},
			{Name: "tokens-minute", Unit: "tokens", Limit: 60000, Remaining: 54032, Reset: 11382867 * time.Microsecond, Period: minute},
		}},
		{"Azure: unlimited is no limit", `
			x-ratelimit-limit-tokens: -1
			x-ratelimit-remaining-tokens: -1
			x-ratelimit-reset-tokens: 0`, nil},
		{"Azure: the reset is spelled in another way", `
			x-ratelimit-remaining-tokens: 0
			x-ratelimit-remaining-requests: 11
			x-rate-limit-reset-tokens: 55`, []headers.Window{
			{Name: "requests", Unit: "requests", Remaining: 11},
			{Name: "tokens", Unit: "tokens", Remaining: 0, Reset: 55 * time.Second, Period: minute},
		}},
		{"HubSpot", `
			X-HubSpot-RateLimit-Daily: 250000
			X-HubSpot-RateLimit-Daily-Remaining: 249000
			X-HubSpot-RateLimit-Interval-Milliseconds: 10000
			X-HubSpot-RateLimit-Max: 100
			X-HubSpot-RateLimit-Remaining: 99
			X-HubSpot-RateLimit-Secondly: 10
			X-HubSpot-RateLimit-Secondly-Remaining: 9`, []headers.Window{
			{Name: "daily", Unit: "requests", Limit: 250000, Remaining: 249000, Period: day},
			{Name: "rolling", Unit: "requests", Limit: 100, Remaining: 99, Period: 10 * time.Second},
		}},
		{"HubSpot, of the day alone", "X-HubSpot-RateLimit-Daily-Remaining: 0", []headers.Window{
			{Name: "daily", Unit: "requests", Remaining: 0, Period: day},
		}},
		{"HubSpot, nonsense", "X-HubSpot-RateLimit-Max: many\nX-HubSpot-RateLimit-Daily: -1", nil},
		{"Atlassian Data Center: 2 come each 5 s, and 10 are kept", `
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 3
			X-RateLimit-Interval-Seconds: 5
			X-RateLimit-FillRate: 2
			Retry-After: 0`, []headers.Window{
			{Unit: "requests", Limit: 10, Remaining: 3, Reset: 20 * time.Second, Period: 25 * time.Second, Refills: true},
		}},
		{"Atlassian Data Center: a fill rate of 0 says nothing", `
			X-RateLimit-Limit: 10
			X-RateLimit-Remaining: 3
			X-RateLimit-Interval-Seconds: 5
			X-RateLimit-FillRate: 0`, []headers.Window{
			{Unit: "requests", Limit: 10, Remaining: 3},
		}},
		{"Jira Cloud", `
			X-RateLimit-Limit: 350
			X-RateLimit-Remaining: 0
			X-RateLimit-NearLimit: true
			X-RateLimit-Reset: 2025-08-21T12:45Z
			RateLimit-Reason: jira-burst-based`, []headers.Window{
			{Unit: "requests", Limit: 350, Remaining: 0, Reset: 4 * minute},
		}},
		{"Anthropic", `
			Date: Thu, 21 Aug 2025 12:40:00 GMT
			anthropic-ratelimit-input-tokens-limit: 80000
			anthropic-ratelimit-input-tokens-remaining: 0
			anthropic-ratelimit-input-tokens-reset: 2025-08-21T12:40:59Z
			anthropic-ratelimit-output-tokens-limit: 16000
			anthropic-ratelimit-output-tokens-remaining: 16000
			anthropic-ratelimit-output-tokens-reset: 2025-08-21T12:40:00Z
			anthropic-ratelimit-requests-limit: 1000
			anthropic-ratelimit-requests-remaining: 999
			anthropic-ratelimit-requests-reset: 2025-08-21T12:40:01Z
			anthropic-ratelimit-tokens-limit: 96000
			anthropic-ratelimit-tokens-remaining: 96000
			anthropic-ratelimit-tokens-reset: 2025-08-21T12:39:59Z
			anthropic-priority-input-tokens-limit: 10000
			anthropic-priority-input-tokens-remaining: 9618
			anthropic-ratelimit-unified-status: allowed
			anthropic-ratelimit-unified-reset: 1755780150
			anthropic-organization-id: 0000`, []headers.Window{
			{Name: "input-tokens", Unit: "tokens", Limit: 80000, Remaining: 0, Reset: 59 * time.Second, Period: minute, Refills: true},
			{Name: "output-tokens", Unit: "tokens", Limit: 16000, Remaining: 16000, Period: minute, Refills: true},
			{Name: "priority-input-tokens", Unit: "tokens", Limit: 10000, Remaining: 9618, Period: minute, Refills: true},
			{Name: "requests", Unit: "requests", Limit: 1000, Remaining: 999, Reset: time.Second, Period: minute, Refills: true},
			{Name: "tokens", Unit: "tokens", Limit: 96000, Remaining: 96000, Period: minute, Refills: true},
		}},
		{"GitHub", `
			x-ratelimit-limit: 5000
			x-ratelimit-remaining: 4987
			x-ratelimit-reset: 1755780150
			x-ratelimit-used: 13
			x-ratelimit-resource: core`, []headers.Window{
			{Name: "core", Unit: "requests", Limit: 5000, Remaining: 4987, Reset: 90 * time.Second, Period: hour},
		}},
		{"GitHub, search", `
			x-ratelimit-limit: 30
			x-ratelimit-remaining: 29
			x-ratelimit-reset: 1755780120
			x-ratelimit-used: 1
			x-ratelimit-resource: search`, []headers.Window{
			{Name: "search", Unit: "requests", Limit: 30, Remaining: 29, Reset: minute, Period: minute},
		}},
		{"GitHub, a resource that is not known", `
			x-ratelimit-limit: 30
			x-ratelimit-remaining: 29
			x-ratelimit-resource: teleport`, []headers.Window{
			{Name: "teleport", Unit: "requests", Limit: 30, Remaining: 29},
		}},
		{"Shopify", "X-Shopify-Shop-Api-Call-Limit: 32/40", []headers.Window{
			{Name: "shop", Unit: "requests", Limit: 40, Remaining: 8, Refills: true},
		}},
		{"Shopify, nonsense", "X-Shopify-Shop-Api-Call-Limit: 32/0", nil},
		{"IETF", `
			RateLimit-Policy: "default";q=100;w=60
			RateLimit: "default";r=50;t=30`, []headers.Window{
			{Name: "default", Unit: "requests", Limit: 100, Remaining: 50, Reset: 30 * time.Second, Period: minute},
		}},
		{"IETF, several", `
			RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400;pk=:cHNzc3Q=:
			RateLimit-Policy: "peak";q=65535;qu="content-bytes";w=10
			RateLimit: "burst";r=0;t=7, "daily";r=811`, []headers.Window{
			{Name: "burst", Unit: "requests", Limit: 100, Remaining: 0, Reset: 7 * time.Second, Period: minute},
			{Name: "daily", Unit: "requests", Limit: 1000, Remaining: 811, Period: day},
			{Name: "peak", Unit: "content-bytes", Limit: 65535, Remaining: -1, Period: 10 * time.Second},
		}},
		{"IETF, without a policy", `RateLimit: default;r=50;t=30`, []headers.Window{
			{Name: "default", Unit: "requests", Remaining: 50, Reset: 30 * time.Second},
		}},
		{"IETF, a dictionary", "RateLimit: limit=100, remaining=50, reset=5\nRateLimit-Policy: 100;w=10", []headers.Window{
			{Unit: "requests", Limit: 100, Remaining: 50, Reset: 5 * time.Second, Period: 10 * time.Second},
		}},
		{"IETF, no structured fields", "RateLimit: 50 left\nRateLimit-Policy: \"default;q=", nil},
		{"triplet with policies", `
			RateLimit-Limit: 10
			RateLimit-Policy: 10;w=1, 50;w=60, 1000;w=3600
			RateLimit-Remaining: 9
			RateLimit-Reset: 50`, []headers.Window{
			{Unit: "requests", Limit: 10, Remaining: 9, Reset: 50 * time.Second, Period: time.Second},
			{Unit: "requests", Limit: 50, Remaining: -1, Period: minute},
			{Unit: "requests", Limit: 1000, Remaining: -1, Period: hour},
		}},
		{"triplet with policies in the limit", `
			X-RateLimit-Limit: 100, 100;window=60, 10000;window=86400
			X-RateLimit-Remaining: 98
			X-RateLimit-Reset: 3`, []headers.Window{
			{Unit: "requests", Limit: 100, Remaining: 98, Reset: 3 * time.Second, Period: minute},
			{Unit: "requests", Limit: 10000, Remaining: -1, Period: day},
		}},
		{"seconds since 1970", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 56\nX-RateLimit-Reset: 1755780150", []headers.Window{
			{Unit: "requests", Limit: 60, Remaining: 56, Reset: 90 * time.Second},
		}},
		{"milliseconds since 1970", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 56\nX-RateLimit-Reset: 1755780150250", []headers.Window{
			{Unit: "requests", Limit: 60, Remaining: 56, Reset: 90250 * time.Millisecond},
		}},
		{"seconds from now", "X-RateLimit-Remaining: 598.0\nX-RateLimit-Used: 2\nX-RateLimit-Reset: 141", []headers.Window{
			{Unit: "requests", Remaining: 598, Reset: 141 * time.Second},
		}},
		{"a moment in words", "X-RateLimit-Limit: 60\nX-RateLimit-Reset: 2025-08-21T14:42:30+02:00", []headers.Window{
			{Unit: "requests", Limit: 60, Remaining: -1, Reset: 90 * time.Second},
		}},
		{"neither seconds nor a moment", "X-RateLimit-Limit: 60\nX-RateLimit-Reset: 500000000", []headers.Window{
			{Unit: "requests", Limit: 60, Remaining: -1},
		}},
		{"a moment that has passed", "X-RateLimit-Limit: 60\nX-RateLimit-Reset: 1755780000", []headers.Window{
			{Unit: "requests", Limit: 60, Remaining: -1},
		}},
		{"Discord", `
			X-RateLimit-Limit: 5
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: 1755780060.500
			X-RateLimit-Reset-After: 0.467
			X-RateLimit-Bucket: abcd1234`, []headers.Window{
			{Unit: "requests", Limit: 5, Remaining: 0, Reset: 467 * time.Millisecond},
		}},
		{"X", "x-rate-limit-limit: 900\nx-rate-limit-remaining: 0\nx-rate-limit-reset: 1755780150", []headers.Window{
			{Unit: "requests", Limit: 900, Remaining: 0, Reset: 90 * time.Second},
		}},
		{"garbage", "X-RateLimit-Limit: many\nX-RateLimit-Remaining: -3\nX-RateLimit-Reset: 9e99", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, headers.Read(200, answer(t, c.lines), now).Windows)
		})
	}
}

// TestManyWindows: an answer with thousands of windows costs those who look at
// them no more than one with a few dozen.
func TestManyWindows(t *testing.T) {
	header := http.Header{}
	for i := range 10_000 {
		header.Set("X-Ratelimit-Limit-"+strings.Repeat("a", 1+i%60)+string(rune('a'+i%26)), "1")
	}
	assert.LessOrEqual(t, len(headers.Read(200, header, now).Windows), 32)
}

// TestWait: when the next units can be had of a window that is used up.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		window headers.Window
		n      int
		want   time.Duration
	}{
		{"something is left", headers.Window{Remaining: 1, Reset: time.Minute}, 1, 0},
		{"unknown", headers.Window{Remaining: -1, Reset: time.Minute}, 1, 0},
		{"all at once", headers.Window{Limit: 60, Reset: 9 * time.Second}, 1, 9 * time.Second},
		{"one by one", headers.Window{Limit: 60, Reset: time.Minute, Refills: true}, 1, time.Second},
		{"ten of them", headers.Window{Limit: 60, Reset: time.Minute, Refills: true}, 10, 10 * time.Second},
		{"more than there ever are", headers.Window{Limit: 60, Reset: time.Minute, Refills: true}, 1000, time.Minute},
		{"no reset", headers.Window{Limit: 60, Refills: true}, 1, 0},
		{"no limit", headers.Window{Reset: time.Minute, Refills: true}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, c.window.Wait(c.n)) })
	}
}

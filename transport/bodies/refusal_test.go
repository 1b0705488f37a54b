package bodies_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/transport/bodies"
)

// Refusals as providers write them, and what follows.
func TestClassify(t *testing.T) {
	// 15:30 at the Pacific coast, where summer time begins on the next day but one.
	now := time.Date(2026, 3, 6, 23, 30, 0, 0, time.UTC)
	anthropic := func(kind, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
	}
	openai := func(kind, code, message string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, message, kind, code)
	}
	gemini := func(status int, kind, details string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":"You exceeded your current quota, please check your plan and billing details.","details":[%s]}}`, status, kind, details)
	}
	quota := func(id string) string {
		return fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":%q,"quotaValue":"250"}]}`, id)
	}
	const retry = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45.837906927s"}`
	type refusal = bodies.Refusal
	for _, c := range []struct {
		name   string
		api    bodies.API
		status int
		body   string
		want   refusal
	}{
		{"Anthropic, input", bodies.Anthropic, 429, anthropic("rate_limit_error", "This request would exceed your organization's rate limit of 450,000 input tokens per minute (org: x)."),
			refusal{Class: bodies.Wait, Window: "input-tokens", Reason: "rate_limit_error"}},
		{"Anthropic, output", bodies.Anthropic, 429, anthropic("rate_limit_error", "… rate limit of 8,000 output tokens per minute"), refusal{Class: bodies.Wait, Window: "output-tokens", Reason: "rate_limit_error"}},
		{"Anthropic, requests", bodies.Anthropic, 429, anthropic("rate_limit_error", "… rate limit of 50 requests per minute"), refusal{Class: bodies.Wait, Window: "requests", Reason: "rate_limit_error"}},
		{"Anthropic, acceleration", bodies.Anthropic, 429, anthropic("rate_limit_error", "This request would exceed your organization's maximum usage increase rate (acceleration limit)"), refusal{Class: bodies.Slow, Reason: "rate_limit_error"}},
		{"Anthropic, the limit of the tier", bodies.Anthropic, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"You will regain access on 2026-04-01 at 00:00 UTC.","details":{"error_code":"enforced_spend_limit_reached"}}}`,
			refusal{Class: bodies.Stop, Scope: bodies.Account, After: 25*24*time.Hour + 30*time.Minute, Reason: "enforced_spend_limit_reached"}},
		{"Anthropic, the limit of the tier, without its end", bodies.Anthropic, 429, `{"error":{"type":"rate_limit_error","message":"","details":{"error_code":"enforced_spend_limit_reached"}}}`,
			refusal{Class: bodies.Stop, Scope: bodies.Account, After: 25*24*time.Hour + 30*time.Minute, Reason: "enforced_spend_limit_reached"}},
		{"Anthropic, the own limit", bodies.Anthropic, 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-03-07 at 00:00 UTC."),
			refusal{Class: bodies.Stop, Scope: bodies.Account, After: 30 * time.Minute, Reason: "usage limit of the account"}},
		{"Anthropic, the limit of a workspace", bodies.Anthropic, 400, anthropic("invalid_request_error", "You have reached your specified workspace API usage limits."),
			refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "usage limit of the account"}},
		{"Anthropic, no credit", bodies.Anthropic, 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "no credit"}},
		{"Anthropic, another wrong request", bodies.Anthropic, 400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), refusal{Class: bodies.Never, Reason: "invalid_request_error"}},
		{"Anthropic, billing", bodies.Anthropic, 402, anthropic("billing_error", ""), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "billing_error"}},
		{"Anthropic, a wrong key", bodies.Anthropic, 401, anthropic("authentication_error", ""), refusal{Class: bodies.Stop, Scope: bodies.Key, Reason: "authentication_error"}},
		{"Anthropic, no access", bodies.Anthropic, 403, anthropic("permission_error", ""), refusal{Class: bodies.Stop, Scope: bodies.Key, Reason: "permission_error"}},
		{"Anthropic, overloaded", bodies.Anthropic, 529, anthropic("overloaded_error", "Overloaded"), refusal{Class: bodies.Alone, Reason: "overloaded_error"}},
		{"Anthropic, too large", bodies.Anthropic, 413, anthropic("request_too_large", ""), refusal{Class: bodies.Never, Reason: "request_too_large"}},
		{"Anthropic, overloaded in a 200", bodies.Anthropic, 200, anthropic("overloaded_error", "Overloaded"), refusal{Class: bodies.Alone, Reason: "overloaded_error"}},
		{"Anthropic, refused in a 200", bodies.Anthropic, 200, anthropic("rate_limit_error", "input tokens per minute"), refusal{Class: bodies.Wait, Window: "input-tokens", Reason: "rate_limit_error"}},
		{"Anthropic, a page of its proxy", bodies.Anthropic, 503, "<html>upstream</html>", refusal{Class: bodies.Alone}},
		{"Anthropic, a page of its proxy, at its limit", bodies.Anthropic, 429, "<html>slow</html>", refusal{Class: bodies.Wait}},

		{"OpenAI, tokens", bodies.OpenAI, 429, openai("tokens", `"rate_limit_exceeded"`, "Rate limit reached for gpt in organization org on tokens per min (TPM): Limit 15000, Used 11972, Requested 4351. Please try again in 5.289s."),
			refusal{Class: bodies.Wait, After: 5289 * time.Millisecond, Window: "tokens", Reason: "rate_limit_exceeded"}},
		{"OpenAI, requests", bodies.OpenAI, 429, openai("requests", `"rate_limit_exceeded"`, "Rate limit reached … on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."),
			refusal{Class: bodies.Wait, After: 20 * time.Second, Window: "requests", Reason: "rate_limit_exceeded"}},
		{"OpenAI, requests of a day", bodies.OpenAI, 429, openai("requests", `"rate_limit_exceeded"`, "Rate limit reached … on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s."),
			refusal{Class: bodies.Stop, Scope: bodies.Model, After: 7*time.Minute + 12*time.Second, Reason: "rate_limit_exceeded"}},
		{"Groq, requests of a day that go on soon", bodies.OpenAI, 429, openai("requests", `"rate_limit_exceeded"`, "Rate limit reached … on requests per day (RPD): Limit 14400, Used 14400, Requested 1. Please try again in 6s."),
			refusal{Class: bodies.Wait, After: 6 * time.Second, Window: "requests", Reason: "rate_limit_exceeded"}},
		{"Groq, tokens of a day", bodies.OpenAI, 429, openai("tokens", `"rate_limit_exceeded"`, "Rate limit reached … on tokens per day (TPD): Limit 100000, Used 99900, Requested 600. Please try again in 7m12s."),
			refusal{Class: bodies.Stop, Scope: bodies.Model, After: 7*time.Minute + 12*time.Second, Reason: "rate_limit_exceeded"}},
		{"OpenAI, never fits", bodies.OpenAI, 429, openai("tokens", `"rate_limit_exceeded"`, "Request too large for gpt … on tokens per min (TPM): Limit 30000, Requested 31000."), refusal{Class: bodies.Never, Reason: "rate_limit_exceeded"}},
		{"OpenAI, slow down", bodies.OpenAI, 429, openai("rate_limit_error", `"slow_down"`, ""), refusal{Class: bodies.Slow, Reason: "slow_down"}},
		{"OpenAI, no quota", bodies.OpenAI, 429, openai("insufficient_quota", `"insufficient_quota"`, "You exceeded your current quota"), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "insufficient_quota"}},
		{"OpenAI, no quota, by its type", bodies.OpenAI, 429, openai("insufficient_quota", `null`, ""), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "insufficient_quota"}},
		{"OpenAI, no credit", bodies.OpenAI, 429, openai("insufficient_quota", `"credit_balance_exhausted"`, ""), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "credit_balance_exhausted"}},
		{"OpenAI, the project's limit", bodies.OpenAI, 429, openai("", `"project_spend_limit_exceeded"`, ""), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "project_spend_limit_exceeded"}},
		{"OpenAI, overloaded", bodies.OpenAI, 503, openai("", `"server_is_overloaded"`, ""), refusal{Class: bodies.Slow, Reason: "server_is_overloaded"}},
		{"OpenAI, too long", bodies.OpenAI, 400, openai("invalid_request_error", `"context_length_exceeded"`, ""), refusal{Class: bodies.Never, Reason: "context_length_exceeded"}},
		{"OpenAI, failed in a 200", bodies.OpenAI, 200, `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"try again in 2s"}}}`, refusal{Class: bodies.Wait, After: 2 * time.Second, Reason: "rate_limit_exceeded"}},
		{"OpenAI, broken in a 200", bodies.OpenAI, 200, openai("server_error", `"server_error"`, ""), refusal{Class: bodies.Alone, Reason: "server_error"}},
		{"OpenAI, text with the word", bodies.OpenAI, 200, `{"choices":[{"tool":{"error":{"code":"rate_limit_exceeded"}}}]}`, refusal{}},
		{"OpenRouter, no credit", bodies.OpenAI, 402, openai("", `402`, "Insufficient credits"), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "402"}},
		{"Groq, no capacity", bodies.OpenAI, 498, openai("", `"capacity_exceeded"`, ""), refusal{Class: bodies.Alone, Reason: "capacity_exceeded"}},
		{"Mistral", bodies.OpenAI, 429, `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300"}`, refusal{Class: bodies.Wait, Reason: "1300"}},
		{"Mistral, no capacity", bodies.OpenAI, 429, `{"object":"error","message":"Service tier capacity exceeded for this model","code":"3505"}`, refusal{Class: bodies.Alone, Reason: "3505"}},

		{"Azure, tokens", bodies.Azure, 429, openai("", `"429"`, "Requests to the API have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."), refusal{Class: bodies.Wait, After: 26 * time.Second, Window: "tokens", Reason: "429"}},
		{"Azure, calls", bodies.Azure, 429, openai("", `429`, "Requests have exceeded call rate limit. Please retry after 1 second."), refusal{Class: bodies.Wait, After: time.Second, Window: "requests", Reason: "429"}},
		{"Azure, the quota of a day", bodies.Azure, 429, openai("", `"429"`, "Requests to the API have exceeded token rate limit. Please retry after 86400 seconds."), refusal{Class: bodies.Stop, Scope: bodies.Model, After: 24 * time.Hour, Reason: "429"}},
		{"Azure, its own capacity", bodies.Azure, 429, openai("", `"429"`, "The system is currently experiencing high demand"), refusal{Class: bodies.Alone, Reason: "429"}},
		{"Azure, the quota of a gateway", bodies.Azure, 403, `{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished"}`, refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "quota"}},
		{"Azure, no access", bodies.Azure, 403, `{"error":{"code":"403","message":"Access denied"}}`, refusal{Class: bodies.Never, Reason: "403"}},

		{"Gemini, input of a minute", bodies.Gemini, 429, gemini(429, "RESOURCE_EXHAUSTED", quota("GenerateContentInputTokensPerModelPerMinute")+","+retry),
			refusal{Class: bodies.Wait, After: 45837906927, Window: "input-tokens", Reason: "GenerateContentInputTokensPerModelPerMinute"}},
		{"Gemini, a day, whose delay is wrong", bodies.Gemini, 429, gemini(429, "RESOURCE_EXHAUSTED", retry+","+quota("GenerateRequestsPerDayPerProjectPerModel")),
			refusal{Class: bodies.Stop, Scope: bodies.Model, After: 8*time.Hour + 30*time.Minute, Reason: "GenerateRequestsPerDayPerProjectPerModel"}},
		{"Gemini, the same in the other order", bodies.Gemini, 429, gemini(429, "RESOURCE_EXHAUSTED", quota("GenerateRequestsPerDayPerProjectPerModel")+","+retry),
			refusal{Class: bodies.Stop, Scope: bodies.Model, After: 8*time.Hour + 30*time.Minute, Reason: "GenerateRequestsPerDayPerProjectPerModel"}},
		{"Gemini, not allowed", bodies.Gemini, 429, gemini(429, "RESOURCE_EXHAUSTED", `{"violations":[{"quotaId":"X","quotaValue":"0"}]}`), refusal{Class: bodies.Never, Reason: "X"}},
		{"Gemini, no credit", bodies.Gemini, 402, gemini(402, "RESOURCE_EXHAUSTED", ""), refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "RESOURCE_EXHAUSTED"}},
		{"Vertex", bodies.Gemini, 429, gemini(429, "RESOURCE_EXHAUSTED", ""), refusal{Class: bodies.Wait, Reason: "RESOURCE_EXHAUSTED"}},
		{"Gemini, as an array", bodies.Gemini, 429, "[" + gemini(429, "RESOURCE_EXHAUSTED", retry) + "]", refusal{Class: bodies.Wait, After: 45837906927, Reason: "RESOURCE_EXHAUSTED"}},
		{"Gemini, broken", bodies.Gemini, 503, gemini(503, "UNAVAILABLE", ""), refusal{Class: bodies.Alone, Reason: "UNAVAILABLE"}},

		{"Bedrock, tokens", bodies.Bedrock, 429, `{"__type":"com.amazon#ThrottlingException","message":"Too many tokens, please wait before trying again."}`, refusal{Class: bodies.Wait, Window: "tokens", Reason: "ThrottlingException"}},
		{"Bedrock, a day", bodies.Bedrock, 429, `{"__type":"ThrottlingException:http://x","message":"Too many tokens per day, please wait before trying again."}`, refusal{Class: bodies.Stop, Scope: bodies.Model, After: 30 * time.Minute, Reason: "ThrottlingException"}},
		{"Bedrock, a quota", bodies.Bedrock, 400, `{"__type":"ServiceQuotaExceededException"}`, refusal{Class: bodies.Stop, Scope: bodies.Account, Reason: "ServiceQuotaExceededException"}},
		{"Bedrock, not ready", bodies.Bedrock, 429, `{"__type":"ModelNotReadyException"}`, refusal{Class: bodies.Alone, Reason: "ModelNotReadyException"}},
		{"Bedrock, wrong", bodies.Bedrock, 400, `{"__type":"ValidationException"}`, refusal{Class: bodies.Never, Reason: "ValidationException"}},

		{"Shopify", bodies.Shopify, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":26,"restoreRate":50}}}}`,
			refusal{Class: bodies.Wait, After: 1500 * time.Millisecond, Reason: "THROTTLED"}},
		{"Shopify, too dear", bodies.Shopify, 200, `{"errors":[{"extensions":{"code":"MAX_COST_EXCEEDED"}}]}`, refusal{Class: bodies.Never, Reason: "MAX_COST_EXCEEDED"}},
		{"Shopify, a wrong field", bodies.Shopify, 200, `{"errors":[{"message":"Field 'x' doesn't exist","extensions":{"code":"undefinedField"}}]}`, refusal{Reason: "undefinedField"}},
		{"GitHub, secondary", bodies.GitHub, 403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes"}`, refusal{Class: bodies.Wait, After: time.Minute, Reason: "secondary rate limit"}},
		{"GitHub, primary", bodies.GitHub, 403, `{"message":"API rate limit exceeded for user ID 1"}`, refusal{Class: bodies.Wait}},
		{"GitHub, GraphQL", bodies.GitHub, 200, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`, refusal{Class: bodies.Wait, Reason: "RATE_LIMITED"}},
		{"GitHub, no access", bodies.GitHub, 403, `{"message":"Resource not accessible by integration"}`, refusal{Class: bodies.Never}},

		{"no rules", "", 429, `{"error":{"code":"insufficient_quota"}}`, refusal{Class: bodies.Wait}},
		{"more than is read", bodies.OpenAI, 429, `{"error":{"code":"insufficient_quota","message":"` + strings.Repeat("x", bodies.MostRead) + `"}}`, refusal{Class: bodies.Wait}},
		{"all is well", bodies.OpenAI, 200, `{"choices":[]}`, refusal{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, bodies.Classify(c.api, c.status, http.Header{}, []byte(c.body), now))
		})
	}
}

// The day of Gemini ends at midnight of the Pacific coast, on the days of 23 and 25 hours, too.
func TestDaysOfGemini(t *testing.T) {
	body := []byte(`{"error":{"code":429,"details":[{"violations":[{"quotaId":"RequestsPerDay"}]}]}}`)
	for at, want := range map[string]time.Duration{
		"2026-07-01T07:00:00Z": 24 * time.Hour, "2026-03-08T08:00:00Z": 23 * time.Hour, "2026-11-01T07:00:00Z": 25 * time.Hour, "2026-11-02T07:59:59Z": time.Second,
	} {
		now, err := time.Parse(time.RFC3339, at)
		assert.NoError(t, err)
		assert.Equal(t, want, bodies.Classify(bodies.Gemini, 429, nil, body, now).After, at)
	}
}

// No body makes it fail, and no wait is negative or longer than a month.
func FuzzClassify(f *testing.F) {
	f.Add("openai", 429, []byte(`{"error":{"code":429,"message":"Please try again in 99999999999h. retry after 99999999999999 seconds"}}`))
	f.Add("shopify", 200, []byte(`{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":1e300,"throttleStatus":{"restoreRate":1e-300}}}}`))
	f.Add("gemini", 429, []byte(`[{"error":{"details":[{"retryDelay":"-5s"},{"violations":[{"quotaValue":{}}]}]}}]`))
	f.Fuzz(func(t *testing.T, api string, status int, body []byte) {
		r := bodies.Classify(bodies.API(api), status, http.Header{}, body, time.Now())
		assert.GreaterOrEqual(t, r.After, time.Duration(0))
		assert.LessOrEqual(t, r.After, 31*24*time.Hour)
		assert.NotEqual(t, "unknown", r.Class.String())
		assert.LessOrEqual(t, len(r.Reason), 64)
	})
}

func ExampleClassify() {
	r := bodies.Classify(bodies.OpenAI, 429, http.Header{}, []byte(`{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Please try again in 5.289s"}}`), time.Now())
	fmt.Println(r.Class, r.After, r.Window)
	r = bodies.Classify(bodies.OpenAI, 429, http.Header{}, []byte(`{"error":{"code":"credit_balance_exhausted"}}`), time.Now())
	fmt.Println(r.Class, r.Scope)
	// Output:
	// wait 5.289s tokens
	// stop account
}

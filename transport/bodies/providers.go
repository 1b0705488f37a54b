package bodies

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// anthropic knows the Messages API. An error within a stream has the type alone.
func anthropic(a answer) Refusal {
	f := a.fault()
	status := a.status
	if status < http.StatusBadRequest {
		status = map[text]int{
			"overloaded_error": 529, "api_error": 500, "timeout_error": 504, "rate_limit_error": 429, "billing_error": 402,
			"authentication_error": 401, "permission_error": 403,
		}[f.Type]
		status = cmp.Or(status, http.StatusBadRequest)
	}
	var details struct {
		Code string `json:"error_code"`
	}
	_ = json.Unmarshal(f.Details, &details) // without details there is no code
	r := byStatus(status)
	r.Reason = cmp.Or(details.Code, string(f.Type))
	switch {
	case details.Code == "enforced_spend_limit_reached":
		r.Class, r.Scope, r.After = Stop, Account, cmp.Or(f.until(a.now), nextMonth(a.now))
	case status == http.StatusBadRequest && f.says("you have reached your specified"):
		r.Class, r.Scope, r.After, r.Reason = Stop, Account, f.until(a.now), "usage limit of the account"
	case status == http.StatusBadRequest && f.says("credit balance is too low"):
		r.Class, r.Scope, r.Reason = Stop, Account, "no credit"
	case status == http.StatusForbidden:
		r.Class, r.Scope = Stop, Key
	case r.Class != Wait:
	case f.says("acceleration"):
		r.Class = Slow
	case f.says("output tokens"):
		r.Window = "output-tokens"
	case f.says("input tokens"):
		r.Window = "input-tokens"
	case f.says("requests per"):
		r.Window = "requests"
	}
	return r
}

// spent are the codes of OpenAI for an account that has nothing left.
var spent = map[text]bool{
	"insufficient_quota": true, "credit_balance_exhausted": true, "organization_spend_limit_exceeded": true, "project_spend_limit_exceeded": true,
	"organization_usage_limit_exceeded": true, "billing_hard_limit_reached": true,
}

// leastStop is the least wait for which a used-up day is a hard stop. Some such limits refill all the time, and calls wait
// in the queue for the next seconds.
const leastStop = time.Minute

// openAI knows the Chat Completions and Responses APIs, and APIs that are compatible with them.
func openAI(a answer) Refusal {
	f := a.fault()
	status := a.status
	if status < http.StatusBadRequest {
		switch {
		case f.Code == "rate_limit_exceeded" || f.Type == "rate_limit_error" || f.Code == "429":
			status = http.StatusTooManyRequests
		case f.Type == "invalid_request_error":
			status = http.StatusBadRequest
		default:
			status = http.StatusInternalServerError
		}
	}
	r := byStatus(status)
	r.Reason = string(cmp.Or(f.Code, f.Type))
	switch {
	case spent[f.Code] || spent[f.Type]:
		r.Class, r.Scope = Stop, Account
	case f.Code == "slow_down", f.Code == "server_is_overloaded":
		r.Class = Slow
	case f.Code == "3505": // Mistral has no capacity for the model
		r.Class = Alone
	case r.Class != Wait:
	case f.says("request too large"):
		r.Class = Never
	case f.says("per day") && (f.wait() == 0 || f.wait() >= leastStop):
		r.Class, r.Scope, r.After = Stop, Model, f.wait()
	default:
		r.After = f.wait()
		if f.Type == "tokens" || f.Type == "requests" {
			r.Window = string(f.Type)
		}
		if f.says("project-tokens", "project tokens") {
			r.Window = "project-tokens"
		}
	}
	return r
}

// leastQuota is the least wait that Azure names for the quota of a day, and not for a rate.
const leastQuota = time.Hour

// azure knows Azure OpenAI. A gateway before it refuses with 403 when a quota is used up.
func azure(a answer) Refusal {
	f := a.fault()
	if a.status == http.StatusForbidden && f.says("quota") {
		return Refusal{Class: Stop, Scope: Account, Reason: "quota", After: f.wait()}
	}
	r := openAI(a)
	switch {
	case r.Class != Wait:
	case f.says("high demand"):
		r.Class, r.After = Alone, 0
	case r.After >= leastQuota:
		r.Class, r.Scope, r.Window = Stop, Model, ""
	case f.says("token rate limit"):
		r.Window = "tokens"
	case f.says("call rate limit", "request rate limit"):
		r.Window = "requests"
	}
	return r
}

// geminiDetails are the details of a refusal of Google APIs.
type geminiDetails []struct {
	RetryDelay string `json:"retryDelay"`
	Violations []struct {
		ID    string `json:"quotaId"`
		Value text   `json:"quotaValue"`
	} `json:"violations"`
}

// gemini knows the Gemini API and Vertex AI. The message tells nothing: refusals for a minute use the words of those
// for billing. The identifier of the quota does.
func gemini(a answer) Refusal {
	f := a.fault()
	status := a.status
	if status < http.StatusBadRequest {
		status = http.StatusInternalServerError
		if f.Status == "RESOURCE_EXHAUSTED" || f.Code == "429" {
			status = http.StatusTooManyRequests
		}
	}
	r := byStatus(status)
	r.Reason = string(f.Status)
	if r.Class != Wait {
		return r
	}
	var details geminiDetails
	_ = json.Unmarshal(f.Details, &details) // without details there is no time
	for _, detail := range details {
		if d, err := time.ParseDuration(detail.RetryDelay); err == nil && r.Class == Wait {
			r.After = max(r.After, d)
		}
		for _, v := range detail.Violations {
			switch {
			case v.Value == "0":
				return Refusal{Class: Never, Reason: v.ID}
			case strings.Contains(v.ID, "PerDay"): // its RetryInfo names some seconds
				r = Refusal{Class: Stop, Scope: Model, After: nextDay(a.now, pacific()), Reason: v.ID}
			case r.Class != Wait:
			case strings.Contains(v.ID, "InputTokens"):
				r.Window, r.Reason = "input-tokens", v.ID
			case strings.Contains(v.ID, "Requests"):
				r.Window, r.Reason = "requests", v.ID
			}
		}
	}
	return r
}

// pacific is the zone in which the days of Gemini end. Without a database of zones it is winter all year, so that a
// day does not end too early.
func pacific() *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return time.FixedZone("PST", -8*60*60)
	}
	return zone
}

// bedrock knows the runtime of Amazon Bedrock. The kind of an error stands in a header.
func bedrock(a answer) Refusal {
	f := a.fault()
	kind, _, _ := strings.Cut(cmp.Or(a.header.Get("X-Amzn-Errortype"), string(f.AmazonType)), ":")
	if i := strings.LastIndexByte(kind, '#'); i >= 0 {
		kind = kind[i+1:]
	}
	r := byStatus(a.status)
	r.Reason = kind
	switch kind {
	case "ThrottlingException":
		r.Class = Wait
		if f.says("per day") {
			r.Class, r.Scope, r.After = Stop, Model, nextDay(a.now, time.UTC)
		} else if f.says("tokens") {
			r.Window = "tokens"
		}
	case "ServiceQuotaExceededException":
		r.Class, r.Scope = Stop, Account
	case "ModelNotReadyException", "ModelTimeoutException", "ModelErrorException", "ModelStreamErrorException":
		r.Class = Alone
	case "ServiceUnavailableException", "InternalServerException":
		if a.status < http.StatusBadRequest { // within a stream
			r.Class = Alone
		}
	}
	return r
}

// graphQL knows the Admin API of Shopify. Its refusals have status 200.
func graphQL(a answer) Refusal {
	f := a.fault()
	r := byStatus(a.status)
	r.Reason = string(f.Extensions.Code)
	switch f.Extensions.Code {
	case "THROTTLED":
		r.Class = Wait
		if cost := a.body.Extensions.Cost; cost.Throttle.Rate > 0 {
			seconds := (cost.Requested - cost.Throttle.Available) / cost.Throttle.Rate
			r.After = time.Duration(min(max(0, seconds), longest.Seconds()) * float64(time.Second))
		}
	case "MAX_COST_EXCEEDED":
		r.Class = Never
	}
	return r
}

// leastRest is how long GitHub wants clients to wait that it refused for its secondary limits.
const leastRest = time.Minute

// gitHub knows the REST and GraphQL APIs of GitHub. Secondary limits are named in the message alone.
func gitHub(a answer) Refusal {
	f := a.fault()
	r := byStatus(a.status)
	r.Reason = string(f.Type)
	switch {
	case f.says("secondary rate limit"):
		r = Refusal{Class: Wait, After: leastRest, Reason: "secondary rate limit"}
	case f.Type == "RATE_LIMITED", a.status == http.StatusForbidden && f.says("rate limit"):
		r.Class = Wait
	}
	return r
}

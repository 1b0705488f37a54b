package bodies

import (
	"net/http"
	"strings"
	"time"
)

// Class says what to do after a response.
type Class int

// The classes of refusals.
const (
	// None: the response is no refusal.
	None Class = iota
	// Wait: a limit is used up for a time. All calls wait.
	Wait
	// Alone: the failure concerns one call. It may be sent again after a moment, and others go on.
	Alone
	// Slow: the provider asks the fleet to lower its rate.
	Slow
	// Never: this request fails whenever it is sent.
	Never
	// Stop: the credit or quota is used up until a person acts or a new day or month begins.
	Stop
)

// String is the name of the class in lower case, or "unknown".
func (c Class) String() string {
	if c < None || c > Stop {
		return "unknown"
	}
	return [...]string{"none", "wait", "alone", "slow", "never", "stop"}[c]
}

// Scope says for what a refusal of class Stop counts.
type Scope string

// The scopes of a Stop.
const (
	Account Scope = "account"
	Model   Scope = "model"
	Key     Scope = "key" // one key, perhaps of one process alone
)

// Refusal is why a call was refused, and what to do.
type Refusal struct {
	Class Class

	// After is how long to wait, if the body or the calendar says it. 0: unknown. The header may say
	// it, too.
	After time.Duration

	// Window is the provider's name for the limit that is used up, as package headers has it:
	// "requests", "tokens", "input-tokens". Empty: unknown.
	Window string

	// Scope is set for a Stop.
	Scope Scope

	// Reason is the provider's word, such as "insufficient_quota", in at most 64 printable letters. It
	// is empty if the provider has none.
	Reason string
}

// API is a provider whose rules [Classify] knows.
type API string

// The providers. OpenAI stands for compatible APIs, too: Groq, Mistral, OpenRouter, xAI, DeepSeek.
const (
	Anthropic API = "anthropic"
	OpenAI    API = "openai"
	Azure     API = "azure"
	Gemini    API = "gemini"
	Bedrock   API = "bedrock"
	Shopify   API = "shopify"
	GitHub    API = "github"
)

var rules = map[API]func(answer) Refusal{
	Anthropic: anthropic, OpenAI: openAI, Azure: azure, Gemini: gemini, Bedrock: bedrock, Shopify: graphQL, GitHub: gitHub,
}

// Known reports whether Classify has rules for the API.
func (a API) Known() bool { return rules[a] != nil }

// MostRead is how many bytes of a refusal's body Classify needs at most.
const MostRead = 64 << 10

// Classify returns what to do after a response. Cut the body after [MostRead] bytes: a longer
// one is judged by the status alone. With a status below 400, it is the [Scanner.Failure] of the response. An API without rules is judged by
// the status alone.
func Classify(api API, status int, header http.Header, body []byte, now time.Time) Refusal {
	rule := rules[api]
	if rule == nil || len(body) > MostRead {
		return byStatus(status)
	}
	a := answer{status: status, header: header, now: now}
	a.parse(body)
	if status < http.StatusBadRequest && !a.failed() {
		return Refusal{}
	}
	r := rule(a)
	r.After = min(max(0, r.After), longest)
	r.Reason = printable(r.Reason)
	return r
}

// printable returns a text that is fit for logs.
func printable(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, text)
	return text[:min(len(text), longestReason)]
}

const (
	longest       = 31 * 24 * time.Hour // as in package headers
	longestReason = 64
)

// byStatus is what all APIs have in common.
func byStatus(status int) Refusal {
	switch status {
	case http.StatusTooManyRequests:
		return Refusal{Class: Wait}
	case http.StatusPaymentRequired:
		return Refusal{Class: Stop, Scope: Account}
	case http.StatusUnauthorized:
		return Refusal{Class: Stop, Scope: Key}
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, statusCapacity:
		return Refusal{Class: Alone}
	}
	switch {
	case status >= http.StatusInternalServerError:
		return Refusal{Class: Alone}
	case status >= http.StatusBadRequest:
		return Refusal{Class: Never}
	}
	return Refusal{}
}

// statusCapacity is the status of Groq for a service tier without capacity.
const statusCapacity = 498

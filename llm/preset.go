package llm

import (
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/transport/bodies"
)

// Counting says which tokens a provider counts when a call begins, and which in the end.
type Counting int

const (
	// CountUsed: the tokens of the prompt count when the call begins, and those of the answer while it is
	// produced. A call reserves what calls use on average, and its cost is corrected.
	CountUsed Counting = iota
	// CountReserved: the prompt and max_tokens count when the call begins. In the end, the used tokens count.
	CountReserved
	// CountLarger: the larger of the prompt and max_tokens counts, and stays.
	CountLarger
	// CountSum: the prompt and max_tokens count, and stay.
	CountSum
)

// Preset is the limits of one model. Change any exported figure: accounts differ, and providers change theirs.
type Preset struct {
	API   bodies.API
	Model string

	// Figures per minute. 0: there is no such limit. Tokens are those of prompts and answers together.
	Requests, Tokens, Input, Output int

	Counting     Counting
	CacheCounts  bool // tokens of the prompt that a cache held count like others
	FailedCounts bool // failed requests count
	GoesOn       bool // the provider produces, and counts, all of an answer whose stream the client cuts
	// Minutes says that the provider counts in windows, not in a bucket. The burst of requests is then 0.1 s. The fleet's
	// rate of requests is lower by 6 of these bursts, and that of tokens by 1.25 times the Burst. Each is at least half of the
	// stated rate.
	Minutes      bool
	OutputFactor int // how many tokens a token of the answer counts as; 0: 1
	MostOutput   int // what a request without max_tokens may produce

	// Burst is for how long the limits store permits. 0: 10 s. A call that costs more than the burst waits for a
	// full bucket; the rest is charged afterwards.
	Burst time.Duration

	// Windows are the provider's names for the limits.
	Windows Windows
}

// Windows are the names that the headers of responses have for the limits, as [headers.Window] has them: a limit in
// X-RateLimit-Limit-Tokens-Minute is "tokens-minute". The fleet follows what those headers say. Several names stand with
// commas. "-": no header states the limit. Empty: "requests", "tokens", "input-tokens" and "output-tokens". Requests may also be
// "*": every limit that counts requests, such as one in X-RateLimit-Limit.
type Windows struct {
	Requests, Tokens, Input, Output string
}

// of returns the names of a limit. The transport takes an empty name for all limits that count requests.
func (w Windows) of(k kind) string {
	switch name := [...]string{w.Requests, w.Tokens, w.Input, w.Output}[k]; name {
	case "":
		return [...]string{"requests", "tokens", "input-tokens", "output-tokens"}[k]
	case "*":
		return ""
	default:
		return name
	}
}

// check returns what is wrong with the names.
func (w Windows) check() error {
	for k, names := range [...]string{w.Requests, w.Tokens, w.Input, w.Output} {
		if names == "" || names == "*" && kind(k) == requests {
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			if low := strings.ToLower(name); name == "" || strings.ContainsAny(name, " *:") || strings.Contains(low, "ratelimit") || strings.Contains(low, "rate-limit") {
				return invalid("Preset.Windows", "must be names of limits, such as \"tokens-minute\" for X-RateLimit-Limit-Tokens-Minute, got %q", names)
			}
		}
	}
	return nil
}

// Tier is a tier of an account at Anthropic.
type Tier int

// The tiers.
const (
	Start Tier = iota
	Build
	Scale
)

// Anthropic returns the limits of a model on Anthropic's API, as its page "Rate limits" stated them in September 2026.
// The models Fable have lower limits than others. A tier below Start counts as Start, and one above Scale as Scale.
func Anthropic(model string, tier Tier) Preset {
	figures := [...][3]int{{1000, 2_000_000, 400_000}, {5000, 5_000_000, 1_000_000}, {10_000, 10_000_000, 2_000_000}}
	if isFable(model) {
		figures = [...][3]int{{1000, 500_000, 100_000}, {2000, 1_500_000, 300_000}, {4000, 4_000_000, 800_000}}
	}
	f := figures[min(max(Start, tier), Scale)]
	return Preset{API: bodies.Anthropic, Model: model, Requests: f[0], Input: f[1], Output: f[2], MostOutput: 8192}
}

// OpenAI returns the limits of a model on OpenAI's API. It counts what requests reserve, and its page
// "Rate limits" of 2026 documents no refund.
func OpenAI(model string, requests, tokens int) Preset {
	return Preset{API: bodies.OpenAI, Model: model, Requests: requests, Tokens: tokens, Counting: CountLarger, CacheCounts: true, FailedCounts: true, MostOutput: 4096, Windows: Windows{Tokens: "tokens,project-tokens"}}
}

// Azure returns the limits of a deployment of Azure OpenAI: 6 requests per minute for 1,000 tokens, and at
// least 1. It counts tokens by the clock's minute, and requests in windows of 10 s. The Burst is 0.8 % of the tokens per
// minute. Calls above twice that use less of the limit, and Azure may refuse some: set a larger Burst for them.
func Azure(deployment string, tokens int) Preset {
	return Preset{API: bodies.Azure, Model: deployment, Requests: max(min(tokens, 1), tokens*6/1000), Tokens: tokens, Counting: CountSum, CacheCounts: true, FailedCounts: true, Minutes: true, MostOutput: 4096,
		Burst: 500 * time.Millisecond, Windows: Windows{Requests: "-", Tokens: "tokens"}} // what is left of the requests is that of 10 s, which no header says
}

// Gemini returns the limits of a model on the Gemini API. Tokens of prompts count alone.
func Gemini(model string, requests, input int) Preset {
	return Preset{API: bodies.Gemini, Model: model, Requests: requests, Input: input, CacheCounts: true, FailedCounts: true, MostOutput: 8192}
}

// Groq returns the limits of a model on Groq's API. Its responses state how many requests are left of a day. A Set does not read that number.
func Groq(model string, requests, tokens int) Preset {
	return Preset{API: bodies.OpenAI, Model: model, Requests: requests, Tokens: tokens, MostOutput: 8192, Windows: Windows{Requests: "-", Tokens: "tokens"}}
}

// Mistral returns the limits of a model on Mistral's API, which has a limit of requests per second. It is
// rounded to requests per minute, at least 1.
func Mistral(model string, perSecond float64, tokens int) Preset {
	requests := int(60 * perSecond)
	if perSecond > 0 {
		requests = max(1, requests)
	}
	return Preset{API: bodies.OpenAI, Model: model, Requests: requests, Tokens: tokens, CacheCounts: true, MostOutput: 8192, Burst: time.Second, Windows: Windows{Requests: "req-minute", Tokens: "tokens-minute"}}
}

// Bedrock returns the limits of a model on the runtime API of Amazon Bedrock. Tokens of answers count five times, as
// those of most models of Claude do. Set max_tokens in requests: it is reserved.
func Bedrock(model string, tokens int) Preset {
	return Preset{API: bodies.Bedrock, Model: model, Tokens: tokens, Counting: CountReserved, OutputFactor: 5, GoesOn: true, MostOutput: 64_000}
}

// fixed reports whether what a call reserves is what it costs, whatever it uses.
func (p *Preset) fixed() bool { return p.Counting == CountLarger || p.Counting == CountSum }

func isFable(model string) bool { return strings.Contains(model, "fable") }

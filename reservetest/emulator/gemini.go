package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// GeminiConfig sets the limits of each model of a project.
type GeminiConfig struct {
	Wire
	Requests int // per minute
	Input    int // tokens of prompts per minute; tokens that a cache held count, too
	Daily    int // requests per day, which ends at midnight of the Pacific coast; 0: no limit

	// Zero are models whose quota is 0, as without billing. Their calls are refused with a limit of 0 and a delay that
	// does not help.
	Zero []string
}

// Gemini is a project of the Gemini API. No header states a limit, and refused calls count as requests. A stream is
// always sent as events. Make one with [NewGemini]. It is safe for concurrent use.
type Gemini struct {
	account
	server
	config GeminiConfig
	zone   *time.Location
}

// NewGemini makes a project with full buckets. The error is an [ErrInvalid], or says that the system has no
// database of time zones.
func NewGemini(config GeminiConfig) (*Gemini, error) {
	switch {
	case config.Requests < 1:
		return nil, invalid("GeminiConfig.Requests", "must be at least 1 per minute, got %d", config.Requests)
	case config.Input < 1:
		return nil, invalid("GeminiConfig.Input", "must be at least 1 token per minute, got %d", config.Input)
	case config.Daily < 0:
		return nil, invalid("GeminiConfig.Daily", "must be at least 1 request, or 0 for no limit, got %d", config.Daily)
	}
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return nil, fmt.Errorf("emulator: the days of Gemini: %w", err)
	}
	g := &Gemini{config: config, zone: zone}
	g.server = server{g, config.Wire}
	return g, config.Wire.validate()
}

// Stop refuses all calls from now on, until Resume, because no credit is left.
func (g *Gemini) Stop() {
	g.halt(refusal{status: http.StatusPaymentRequired, word: "RESOURCE_EXHAUSTED", limit: "credit"})
}

func (g *Gemini) admit(now time.Time, c Call, a Answer) (charge, *refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	needs := []need{
		{name: "requests", units: 1, always: true, meter: g.limit(c.Model, "requests", func() meter { return perMinute("requests", g.config.Requests, time.Minute) })},
		{name: "input-tokens", units: float64(a.Input + a.CacheRead + a.CacheWrite), meter: g.limit(c.Model, "input-tokens", func() meter { return perMinute("input-tokens", g.config.Input, time.Minute) })},
	}
	if g.config.Daily > 0 {
		needs = append(needs, need{name: "requests-day", units: 1, always: true, meter: g.limit(c.Model, "requests-day", func() meter {
			return &window{Limit: Limit{Name: "requests-day"}, most: float64(g.config.Daily), length: 24 * time.Hour, zone: g.zone}
		})})
	}
	r := g.stopped()
	if r == nil && a.Refuse != "" {
		r = &refusal{status: a.Status, word: a.Refuse}
	}
	if r == nil && slices.Contains(g.config.Zero, c.Model) {
		r = &refusal{status: http.StatusTooManyRequests, word: "RESOURCE_EXHAUSTED", after: 26 * time.Second, limit: "zero"}
	}
	if r == nil {
		if r = g.account.admit(now, c.Model, needs); r == nil {
			return &geminiCharge{g}, nil
		}
		r.status, r.word = http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"
	}
	g.record(now, c.Model, r.word)
	return nil, r
}

// geminiCharge is an admitted call. Its input was counted, and its output does not count.
type geminiCharge struct{ of *Gemini }

func (*geminiCharge) start(time.Time)            {}
func (*geminiCharge) produce(time.Time, float64) {}

func (h *geminiCharge) end(time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.report.Open--
}

func (*Gemini) headers(http.Header, time.Time, Call, Answer) {}

// refused names the quota and a delay in the body alone. All refusals have the same text, and the delay of a day's
// quota is wrong.
func (*Gemini) refused(_ http.Header, _ time.Time, r *refusal) []byte {
	id, delay := "", r.after.Round(time.Millisecond).String()
	switch r.limit {
	case "requests":
		id = "GenerateRequestsPerMinutePerProjectPerModel"
	case "input-tokens":
		id = "GenerateContentInputTokensPerModelPerMinute"
	case "requests-day":
		id, delay = "GenerateRequestsPerDayPerProjectPerModel", "26s"
	case "zero":
		id = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
	default:
		return fmt.Appendf(nil, `{"error":{"code":%d,"message":"Your prepayment credits are depleted.","status":%q}}`, r.status, r.word)
	}
	if r.after == never {
		delay = "59s"
	}
	return fmt.Appendf(nil, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[`+
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate","quotaId":%q,"quotaValue":"%.0f"}]},`+
		`{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}]}}`, id, r.most, delay)
}

func geminiChunk(text, finish string, a Answer, output int) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":%s}],"role":"model"},"index":0%s}],"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d}}`,
		quote(text), finish, a.Input+a.CacheRead+a.CacheWrite, a.CacheRead, output, a.Input+a.CacheRead+a.CacheWrite+output)
}

const finished = `,"finishReason":"STOP"`

func (*Gemini) whole(_ Call, a Answer) []byte {
	return []byte(geminiChunk(words(a.Output), finished, a, a.Output))
}

func (*Gemini) begin(Call, Answer) []byte { return nil }

func (*Gemini) delta(_ Call, text string, produced int) []byte {
	return fmt.Appendf(nil, "data: "+`{"candidates":[{"content":{"parts":[{"text":%s}],"role":"model"},"index":0}],"usageMetadata":{"candidatesTokenCount":%d}}`+"\r\n\r\n", quote(text), produced)
}

func (*Gemini) failed(_ Call, word string) []byte {
	return fmt.Appendf(nil, "data: "+`{"error":{"code":503,"message":"failed","status":%q}}`+"\r\n\r\n", word)
}

func (*Gemini) end(_ Call, a Answer) []byte {
	return []byte("data: " + geminiChunk("", finished, a, a.Output) + "\r\n\r\n")
}

func (*Gemini) goesOn() bool   { return false }
func (*Gemini) events() string { return "text/event-stream" }

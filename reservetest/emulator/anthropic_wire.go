package emulator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// headers states the limits. The remaining tokens are rounded to thousands, and a reset is when the bucket
// will be full.
func (a *Anthropic) headers(h http.Header, now time.Time, c Call, _ Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, input, output := a.of(c.Model)
	rounded := func(n float64) float64 { return math.Round(n/1000) * 1000 }
	state := func(name string, m meter, round func(float64) float64) {
		left, full := m.left(now)
		h.Set("Anthropic-Ratelimit-"+name+"-Limit", strconv.Itoa(int(math.Round(m.size()))))
		h.Set("Anthropic-Ratelimit-"+name+"-Remaining", strconv.Itoa(int(round(max(0, left)))))
		h.Set("Anthropic-Ratelimit-"+name+"-Reset", now.Add(full).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
	}
	state("Requests", requests, math.Floor)
	state("Input-Tokens", input, rounded)
	state("Output-Tokens", output, rounded)
	state("Tokens", input, rounded)
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("Request-Id", "req_emulated")
}

func (*Anthropic) refused(h http.Header, now time.Time, r *refusal) []byte {
	word, text, details := r.word, "Overloaded", ""
	switch {
	case r.limit == "acceleration":
		text = "This request would exceed your organization's acceleration limit. Please raise your usage slowly."
	case r.word == "rate_limit_error":
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(min(r.after.Seconds(), 1<<30)))))
		unit := map[string]string{"requests": "requests", "input-tokens": "input tokens", "output-tokens": "output tokens"}[r.limit]
		text = fmt.Sprintf("This request would exceed your organization's rate limit of %.0f %s per minute.", r.most, unit)
	case r.word == "enforced_spend_limit_reached":
		y, m, _ := now.UTC().Date()
		word, details = "rate_limit_error", `,"details":{"error_code":"enforced_spend_limit_reached"}`
		text = "You have reached the spend limit of your organization. You will regain access on " +
			time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01-02") + " at 00:00 UTC."
	case r.limit == "usage":
		text = "You have reached your specified API usage limits. You will regain access on the first day of the next month."
	case r.limit == "credit":
		text = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
	}
	return fmt.Appendf(nil, `{"type":"error","error":{"type":%q,"message":%q%s},"request_id":"req_emulated"}`, word, text, details)
}

func (*Anthropic) whole(c Call, a Answer) []byte {
	return fmt.Appendf(nil, `{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%s}],`+
		`"stop_reason":"end_turn","stop_sequence":null,"usage":%s}`, c.Model, quote(words(a.Output)), anthropicUsage(a, a.Output))
}

func anthropicUsage(a Answer, output int) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,`+
		`"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":0},"output_tokens":%d,"service_tier":"standard"}`,
		a.Input, a.CacheWrite, a.CacheRead, a.CacheWrite, output)
}

func (*Anthropic) begin(c Call, a Answer) []byte {
	return fmt.Appendf(nil, "event: message_start\n"+
		`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"usage":%s}}`+"\n\n"+
		"event: content_block_start\n"+`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`+"\n\n"+
		"event: ping\n"+`data: {"type":"ping"}`+"\n\n", c.Model, anthropicUsage(a, 1))
}

func (*Anthropic) delta(_ Call, text string, _ int) []byte {
	return fmt.Appendf(nil, "event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`+"\n\n", quote(text))
}

func (*Anthropic) failed(_ Call, word string) []byte {
	return fmt.Appendf(nil, "event: error\n"+`data: {"type":"error","error":{"type":%q,"message":"Overloaded"}}`+"\n\n", word)
}

func (*Anthropic) end(_ Call, a Answer) []byte {
	return fmt.Appendf(nil, "event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`+"\n\n"+
		"event: message_delta\n"+`data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":%s}`+"\n\n"+
		"event: message_stop\n"+`data: {"type":"message_stop"}`+"\n\n", anthropicUsage(a, a.Output))
}

func (*Anthropic) goesOn() bool   { return false }
func (*Anthropic) events() string { return "text/event-stream; charset=utf-8" }

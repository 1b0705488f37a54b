package emulator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (o *OpenAI) headers(h http.Header, now time.Time, c Call, _ Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.of(c.Model) {
		if n.name == "requests-day" || n.name == "ramp" {
			continue
		}
		left, full := n.left(now)
		h.Set("X-Ratelimit-Limit-"+n.name, strconv.Itoa(int(math.Round(n.size()))))
		h.Set("X-Ratelimit-Remaining-"+n.name, strconv.Itoa(int(max(0, left))))
		h.Set("X-Ratelimit-Reset-"+n.name, full.Round(time.Millisecond).String())
	}
	h.Set("X-Request-Id", "req_emulated")
	h.Set("Date", now.UTC().Format(http.TimeFormat))
}

// refused speaks as OpenAI. Only a limit that will have room states a time.
func (*OpenAI) refused(h http.Header, _ time.Time, r *refusal) []byte {
	word, kind, text := r.word, "rate_limit_error", "The server is overloaded. Please try again later."
	switch {
	case r.limit == "quota":
		kind, text = "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."
	case r.limit == "ramp":
		text = "Please slow down: the rate of your tokens rises too fast. Keep it for 15 minutes, and then raise it slowly."
	case r.limit == "requests-day":
		kind = "requests"
		text = fmt.Sprintf("Rate limit reached on requests per day (RPD): Limit %.0f, Used %.0f, Requested 1.", r.most, r.most)
	case r.after == never:
		kind = "tokens"
		text = fmt.Sprintf("Request too large on tokens per min (TPM): Limit %.0f, Requested %.0f. The input or output tokens must be reduced in order to run successfully.", r.most, r.asked)
	case r.limit != "":
		kind = r.limit
		if strings.HasSuffix(kind, "tokens") {
			kind = "tokens"
		}
		text = fmt.Sprintf("Rate limit reached on %s per min: Limit %.0f, Used %.0f, Requested %.0f. Please try again in %v.",
			r.limit, r.most, r.most-max(0, r.left), r.asked, r.after.Round(time.Millisecond))
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.after.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(r.after.Milliseconds()+1, 10))
	}
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%q,"param":null,"code":%q}}`, quote(text), kind, word)
}

// chat is how responses of the Chat Completions and Responses APIs look.
type chat struct{}

func responses(c Call) bool { return strings.HasSuffix(c.Request.URL.Path, "/responses") }

func chatUsage(a Answer) string {
	prompt := a.Input + a.CacheRead + a.CacheWrite
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`,
		prompt, a.Output, prompt+a.Output, a.CacheRead)
}

func responsesUsage(a Answer) string {
	prompt := a.Input + a.CacheRead + a.CacheWrite
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
		prompt, a.CacheRead, a.Output, prompt+a.Output)
}

func responseOf(c Call, a Answer, status string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","status":%q,"model":%q,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":%s}]}],"usage":%s}`,
		status, c.Model, quote(words(a.Output)), responsesUsage(a))
}

func (chat) whole(c Call, a Answer) []byte {
	if responses(c) {
		return []byte(responseOf(c, a, "completed"))
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-1","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":%s}`,
		c.Model, quote(words(a.Output)), chatUsage(a))
}

// chunk returns one event of a streamed chat.
func chunk(c Call, choices, usage string) []byte {
	if c.Usage {
		usage = `,"usage":` + usage
	} else {
		usage = ""
	}
	return fmt.Appendf(nil, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":%q,"choices":[%s]%s}`+"\n\n", c.Model, choices, usage)
}

func (chat) begin(c Call, _ Answer) []byte {
	if responses(c) {
		return fmt.Appendf(nil, "event: response.created\n"+`data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":%q,"usage":null}}`+"\n\n", c.Model)
	}
	return chunk(c, `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "null")
}

func (chat) delta(c Call, text string, _ int) []byte {
	if responses(c) {
		return fmt.Appendf(nil, "event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","output_index":0,"delta":%s}`+"\n\n", quote(text))
	}
	return chunk(c, `{"index":0,"delta":{"content":`+quote(text)+`},"finish_reason":null}`, "null")
}

func (chat) failed(c Call, word string) []byte {
	if responses(c) {
		return fmt.Appendf(nil, "event: response.failed\n"+`data: {"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":%q,"message":"failed"},"usage":null}}`+"\n\n", word)
	}
	return fmt.Appendf(nil, `data: {"error":{"message":"failed","type":"server_error","code":%q}}`+"\n\n", word)
}

func (chat) end(c Call, a Answer) []byte {
	if responses(c) {
		return fmt.Appendf(nil, "event: response.completed\n"+`data: {"type":"response.completed","response":%s}`+"\n\n", responseOf(c, a, "completed"))
	}
	out := chunk(c, `{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	if c.Usage {
		out = append(out, chunk(c, "", chatUsage(a))...)
	}
	return append(out, "data: [DONE]\n\n"...)
}

func (chat) goesOn() bool   { return false }
func (chat) events() string { return "text/event-stream; charset=utf-8" }

package emulator

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"time"
)

// BedrockConfig sets the limits of each model of an account.
type BedrockConfig struct {
	Wire
	Tokens int // per minute
	Daily  int // tokens per day in UTC; 0: no limit

	// Burndown is how many tokens of the limits a token of the answer counts in the end. Default 5, as
	// for new models of Anthropic.
	Burndown int

	// MaxTokens is what a request reserves that sets no maxTokens. Default 64,000.
	MaxTokens int
}

// Bedrock is the runtime of Amazon Bedrock: Converse and ConverseStream. It continues to produce what a client does
// not wait for, and refuses requests whose X-Amz-Date is older than 5 minutes. No header states a limit. Make one
// with [NewBedrock]. It is safe for concurrent use.
type Bedrock struct {
	account
	server
	config BedrockConfig
}

// NewBedrock makes an account with full buckets. The error is an [ErrInvalid].
func NewBedrock(config BedrockConfig) (*Bedrock, error) {
	if config.Burndown == 0 {
		config.Burndown = 5
	}
	if config.MaxTokens == 0 {
		config.MaxTokens = 64_000
	}
	switch {
	case config.Tokens < 1:
		return nil, invalid("BedrockConfig.Tokens", "must be at least 1 per minute, got %d", config.Tokens)
	case config.Daily < 0:
		return nil, invalid("BedrockConfig.Daily", "must be at least 1 token, or 0 for no limit, got %d", config.Daily)
	case config.Burndown < 1:
		return nil, invalid("BedrockConfig.Burndown", "must be at least 1, or 0 for 5, got %d", config.Burndown)
	case config.MaxTokens < 1:
		return nil, invalid("BedrockConfig.MaxTokens", "must be at least 1, or 0 for 64000, got %d", config.MaxTokens)
	}
	b := &Bedrock{config: config}
	b.server = server{b, config.Wire}
	return b, config.Wire.validate()
}

// longestSigned is how old a signature may be.
const longestSigned = 5 * time.Minute

func (b *Bedrock) admit(now time.Time, c Call, a Answer) (charge, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := c.Max
	if most == 0 {
		most = b.config.MaxTokens
	}
	h := &bedrockCharge{of: b, reserved: float64(a.Input + a.CacheWrite + most), used: float64(a.Input + a.CacheWrite)}
	h.needs = []need{{name: "tokens", units: h.reserved, meter: b.limit(c.Model, "tokens", func() meter { return perMinute("tokens", b.config.Tokens, time.Minute) })}}
	if b.config.Daily > 0 {
		h.needs = append(h.needs, need{name: "tokens-day", units: h.reserved, meter: b.limit(c.Model, "tokens-day", func() meter {
			return &window{Limit: Limit{Name: "tokens-day"}, most: float64(b.config.Daily), length: 24 * time.Hour}
		})})
	}
	r := b.stopped()
	if signed, err := time.Parse("20060102T150405Z", c.Request.Header.Get("X-Amz-Date")); r == nil && err == nil && now.Sub(signed) > longestSigned {
		r = &refusal{status: http.StatusForbidden, word: "InvalidSignatureException"}
	}
	if r == nil && a.Refuse != "" {
		r = &refusal{status: a.Status, word: a.Refuse}
	}
	if r == nil {
		if r = b.account.admit(now, c.Model, h.needs); r == nil {
			return h, nil
		}
		r.status, r.word = http.StatusTooManyRequests, "ThrottlingException"
	}
	b.record(now, c.Model, r.word)
	return nil, r
}

// bedrockCharge is what an admitted call counts.
type bedrockCharge struct {
	of             *Bedrock
	needs          []need
	reserved, used float64
}

func (*bedrockCharge) start(time.Time) {}

func (h *bedrockCharge) produce(_ time.Time, n float64) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.used += n * float64(h.of.config.Burndown)
}

// end replaces the reserved tokens by the used ones.
func (h *bedrockCharge) end(now time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.report.Open--
	for _, n := range h.needs {
		n.take(now, h.used-h.reserved)
	}
}

func (*Bedrock) headers(h http.Header, _ time.Time, _ Call, _ Answer) {
	h.Set("X-Amzn-Requestid", "emulated")
}

func (*Bedrock) refused(h http.Header, _ time.Time, r *refusal) []byte {
	h.Set("X-Amzn-Errortype", r.word+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	text := map[string]string{
		"tokens": "Too many tokens, please wait before trying again.", "tokens-day": "Too many tokens per day, please wait before trying again.",
	}[r.limit]
	if strings.HasPrefix(r.word, "InvalidSignature") {
		text = "Signature expired"
	}
	return fmt.Appendf(nil, `{"message":%q}`, text)
}

func bedrockUsage(a Answer) string {
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d}`,
		a.Input, a.Output, a.Input+a.Output, a.CacheRead, a.CacheWrite)
}

func (*Bedrock) whole(_ Call, a Answer) []byte {
	return fmt.Appendf(nil, `{"output":{"message":{"role":"assistant","content":[{"text":%s}]}},"stopReason":"end_turn","usage":%s}`, quote(words(a.Output)), bedrockUsage(a))
}

func (*Bedrock) begin(Call, Answer) []byte {
	return frame("event", "messageStart", `{"role":"assistant"}`)
}

func (*Bedrock) delta(_ Call, text string, _ int) []byte {
	return frame("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":`+quote(text)+`}}`)
}

func (*Bedrock) failed(_ Call, word string) []byte {
	return frame("exception", word, `{"message":"failed"}`)
}

func (*Bedrock) end(_ Call, a Answer) []byte {
	return append(frame("event", "messageStop", `{"stopReason":"end_turn"}`), frame("event", "metadata", `{"usage":`+bedrockUsage(a)+`}`)...)
}

func (*Bedrock) goesOn() bool   { return true }
func (*Bedrock) events() string { return "application/vnd.amazon.eventstream" }

// frame returns a message of Amazon's event stream: its lengths and their checksum, headers, payload, and the checksum
// of all.
func frame(kind, name, payload string) []byte {
	var headers []byte
	add := func(name, value string) {
		headers = append(headers, byte(len(name)))
		headers = append(headers, name...)
		headers = append(headers, 7) // a string
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(value)))
		headers = append(headers, value...)
	}
	add(":"+kind+"-type", name)
	add(":content-type", "application/json")
	add(":message-type", kind)
	const around = 16 // bytes of lengths and checksums
	out := binary.BigEndian.AppendUint32(nil, uint32(around+len(headers)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(headers)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, headers...), payload...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

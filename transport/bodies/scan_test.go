package bodies_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fleetpace/fleetpace/transport/bodies"
)

const (
	anthropicStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":60000,\"cache_creation\":{\"ephemeral_5m_input_tokens\":7},\"output_tokens\":1}}}\n\n"
	anthropicText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"12345678 \\\"usage\\\": \"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"
	anthropicDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n"
	anthropicLast  = "event: message_delta\r\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":60000,\"output_tokens\":503,\"output_tokens_details\":{\"output_tokens\":9}}}\r\n\r\nevent: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n"

	chatText  = "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Héllo, wörld!\"}}],\"usage\":null,\"error\":null}\n\n"
	chatUsage = "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":300,\"completion_tokens\":120,\"total_tokens\":420,\"prompt_tokens_details\":{\"cached_tokens\":256},\"completion_tokens_details\":{\"reasoning_tokens\":64}}}\n\n"
	chatDone  = "data: [DONE]\n\n"
	groqLast  = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"queue_time\":0.04,\"prompt_tokens\":300,\"completion_tokens\":120}}}\n\n"

	gemini1 = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"hello\"}]}}],\"usageMetadata\": {\"promptTokenCount\": 40,\"candidatesTokenCount\": 2,\"totalTokenCount\": 42,\"promptTokensDetails\":[{\"modality\":\"TEXT\",\"tokenCount\":40}]}}\r\n\r\n"
	gemini2 = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\": {\"args\": {\"usageMetadata\": {\"promptTokenCount\": 9999}, \"usage\": {\"input_tokens\": 9999}}}}]},\"finishReason\": \"STOP\"}],\"usageMetadata\": {\"promptTokenCount\": 40,\"cachedContentTokenCount\": 30,\"candidatesTokenCount\": 12,\"thoughtsTokenCount\": 100,\"toolUsePromptTokenCount\": 3}}\r\n\r\n"
)

const (
	sse  = "text/event-stream; charset=utf-8"
	json = "application/json"
)

// What bodies state, by provider, whole and cut.
var said = []struct {
	name, kind, body string
	cut              bool // the body ended with an error
	want             bodies.Usage
	failure          string
}{
	{"Anthropic", sse, anthropicStart + anthropicText + anthropicDelta + anthropicLast, false, bodies.Usage{Input: 25, CacheRead: 60_000, CacheWrite: 7, Output: 503, Known: true, Complete: true}, ""},
	{"Anthropic, cut after some text", sse, anthropicStart + anthropicText, true, bodies.Usage{Input: 25, CacheRead: 60_000, CacheWrite: 7, Output: 5, Known: true}, ""},
	{"Anthropic, cut after its count", sse, anthropicStart + anthropicText + anthropicDelta, true, bodies.Usage{Input: 25, CacheRead: 60_000, CacheWrite: 7, Output: 15, Known: true}, ""},
	{"Anthropic, cut as if it were whole", sse, anthropicStart + strings.Repeat(anthropicText, 10), false, bodies.Usage{Input: 25, CacheRead: 60_000, CacheWrite: 7, Output: 50, Known: true}, ""},
	{"Anthropic, cut before it began", sse, "", true, bodies.Usage{}, ""},
	{"Anthropic, cut in the middle of a number", sse, anthropicStart[:strings.Index(anthropicStart, "0000")], true, bodies.Usage{}, ""},
	{"Anthropic, an error", sse, anthropicStart + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", false,
		bodies.Usage{Input: 25, CacheRead: 60_000, CacheWrite: 7, Output: 1, Known: true}, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
	{"Anthropic, a tool whose arguments look like usage", json,
		`{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":9999},"message":{"usage":{"input_tokens":9999}}}}],"usage":{"input_tokens":25,"output_tokens":3,"iterations":[{"input_tokens":9999}]}}`, false,
		bodies.Usage{Input: 25, Output: 3, Known: true, Complete: true}, ""},
	{"a chat", sse, chatText + chatUsage + chatDone, false, bodies.Usage{Input: 44, CacheRead: 256, Output: 120, Known: true, Complete: true}, ""},
	{"a chat that states no usage", sse, chatText + chatDone, false, bodies.Usage{Complete: true}, ""},
	{"a chat, cut", sse, chatText + chatText, true, bodies.Usage{Output: 8}, ""},
	{"a chat, with an error", sse, chatText + "data: {\"error\":{\"code\":\"server_error\"}}\n\n", false, bodies.Usage{Output: 4}, `{"error":{"code":"server_error"}}`},
	{"Groq says it twice", sse, chatText + groqLast + chatUsage + chatDone, false, bodies.Usage{Input: 44, CacheRead: 256, Output: 120, Known: true, Complete: true}, ""},
	{"usage in the last event but one", sse, strings.Replace(chatUsage, `"choices":[]`, `"choices":[{"delta":{"content":"x"}}]`, 1) + chatText + chatDone, false,
		bodies.Usage{Input: 44, CacheRead: 256, Output: 120, Known: true, Complete: true}, ""},
	{"usage between two texts", sse, chatText + strings.Replace(chatText, "Héllo, wörld!", `a"}}],"usage":{"prompt_tokens":7},"x":[{"y":{"z":"b`, 1) + strings.Replace(chatText, "Héllo, wörld!", `\\`, 1) + chatDone, false,
		bodies.Usage{Input: 7, Known: true, Complete: true}, ""},
	{"a whole response", json, `{"object":"response","status":"completed","error": null,"usage":{"input_tokens":3,"output_tokens":4}}`, false, bodies.Usage{Input: 3, Output: 4, Known: true, Complete: true}, ""},
	{"a whole chat", json, `{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9999}"}}],"usage":{"prompt_tokens":300,"completion_tokens":120,"prompt_tokens_details":{"cached_tokens":256}}}`, false,
		bodies.Usage{Input: 44, CacheRead: 256, Output: 120, Known: true, Complete: true}, ""},
	{"responses", sse, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null,\"usage\":null}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"text\":\"" + strings.Repeat("long ", 30_000) + "\"}],\"usage\":{\"input_tokens\":300,\"input_tokens_details\":{\"cached_tokens\":200,\"cache_write_tokens\":50},\"output_tokens\":7}}}\n\n", false,
		bodies.Usage{Input: 50, CacheRead: 200, CacheWrite: 50, Output: 7, Known: true, Complete: true}, ""},
	{"Gemini", sse, gemini1 + gemini2, false, bodies.Usage{Input: 13, CacheRead: 30, Output: 112, Known: true, Complete: true}, ""},
	{"Gemini, cut", sse, gemini1, true, bodies.Usage{Input: 40, Output: 2, Known: true}, ""},
	{"Gemini, as an array", json, "[" + strings.TrimPrefix(strings.TrimSpace(gemini1), "data: ") + ",\n" + strings.TrimPrefix(strings.TrimSpace(gemini2), "data: ") + "]", false,
		bodies.Usage{Input: 13, CacheRead: 30, Output: 112, Known: true, Complete: true}, ""},
	{"Bedrock", json, `{"output":{},"usage":{"inputTokens":30,"outputTokens":628,"totalTokens":658,"cacheReadInputTokens":10,"cacheWriteInputTokens":5}}`, false,
		bodies.Usage{Input: 30, CacheRead: 10, CacheWrite: 5, Output: 628, Known: true, Complete: true}, ""},
	{"Shopify", json, `{"data":{"cost":{"actualQueryCost":9999}},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46.2,"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}}}}`, false,
		bodies.Usage{Cost: 47, Known: true, Complete: true}, ""},
	{"Shopify, throttled", json, `{"errors":[{"extensions":{"code":"THROTTLED"}}]}`, false, bodies.Usage{Complete: true}, `{"errors":[{"extensions":{"code":"THROTTLED"}}]}`},
	{"a long document", json, `{"text":"` + strings.Repeat("\\\"x", 100_000) + `","usage":{"input_tokens":25,"output_tokens":3}}`, false, bodies.Usage{Input: 25, Output: 3, Known: true, Complete: true}, ""},
	{"other content", "text/html", `{"usage":{"input_tokens":25}}`, false, bodies.Usage{Complete: true}, ""},
	{"no JSON", json, "}}]]\x00{{{[\"usage\":{\"input_tokens\":1e99999", false, bodies.Usage{Complete: true}, ""},
}

func header(kind string) http.Header { return http.Header{"Content-Type": {kind}} }

func TestUsage(t *testing.T) {
	for _, c := range said {
		t.Run(c.name, func(t *testing.T) {
			s := bodies.NewScanner(header(c.kind))
			n, err := s.Write([]byte(c.body))
			require.NoError(t, err)
			assert.Len(t, c.body, n)
			s.End(!c.cut)
			assert.Equal(t, c.want, s.Usage())
			assert.Equal(t, c.failure, string(s.Failure()))
		})
	}
}

// Use that stands in the header, of Bedrock's InvokeModel and of Mistral.
func TestUsageOfHeaders(t *testing.T) {
	s := bodies.NewScanner(http.Header{"X-Amzn-Bedrock-Input-Token-Count": {"12"}, "X-Amzn-Bedrock-Output-Token-Count": {"300"}, "X-Amzn-Bedrock-Cache-Read-Input-Token-Count": {"-5"}})
	s.End(true)
	assert.Equal(t, bodies.Usage{Input: 12, Output: 300, Known: true, Complete: true}, s.Usage())
	s = bodies.NewScanner(http.Header{"X-Ratelimit-Tokens-Query-Cost": {"52"}})
	s.End(true)
	assert.Equal(t, bodies.Usage{Cost: 52, Known: true, Complete: true}, s.Usage())
}

// split gives a body to a scanner in parts that end after each byte of which cuts has the bit.
func split(s *bodies.Scanner, body, cuts []byte) {
	from := 0
	for i := range body {
		if at := i / 8 % max(1, len(cuts)); len(cuts) > 0 && cuts[at]&(1<<(i%8)) != 0 {
			_, _ = s.Write(body[from : i+1])
			from = i + 1
		}
	}
	_, _ = s.Write(body[from:])
}

// Whatever the parts in which the bytes come, the same is read. No input makes it fail.
func FuzzSplit(f *testing.F) {
	for _, c := range said {
		body := c.body
		if len(body) > 4096 {
			body = body[:4096]
		}
		f.Add([]byte(body), []byte{0xff}, c.kind == sse)
		f.Add([]byte(body), []byte{0x10, 0x00, 0x81}, c.kind == sse)
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte, events bool) {
		kind := json
		if events {
			kind = sse
		}
		before := string(body)
		whole, parts := bodies.NewScanner(header(kind)), bodies.NewScanner(header(kind))
		_, _ = whole.Write(body)
		split(parts, body, cuts)
		assert.Equal(t, whole.Usage(), parts.Usage(), "before the end")
		whole.End(true)
		parts.End(true)
		assert.Equal(t, whole.Usage(), parts.Usage())
		assert.Equal(t, string(whole.Failure()), string(parts.Failure()))
		assert.Equal(t, before, string(body), "no byte is changed")
		u := whole.Usage()
		assert.GreaterOrEqual(t, min(u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Cost), 0)
	})
}

// The splits of the table, drawn at random, with lines that are longer than what is kept.
func TestSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(said).Draw(t, "body")
		cuts := rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "cuts")
		if len(c.body) > 10_000 {
			cuts = append(cuts, make([]byte, 1000)...)
		}
		s := bodies.NewScanner(header(c.kind))
		split(s, []byte(c.body), cuts)
		s.End(!c.cut)
		assert.Equal(t, c.want, s.Usage(), c.name)
		assert.Equal(t, c.failure, string(s.Failure()), c.name)
	})
}

// A stream costs few allocations, however long it is.
func TestAllocations(t *testing.T) {
	stream := []byte(anthropicStart + strings.Repeat(anthropicText, 1000) + anthropicLast)
	h := header(sse)
	got := testing.AllocsPerRun(20, func() {
		s := bodies.NewScanner(h)
		for p := stream; len(p) > 0; {
			n := min(len(p), 777)
			_, _ = s.Write(p[:n])
			p = p[n:]
		}
		s.End(true)
		if s.Usage().Output != 503 {
			t.Fatal(s.Usage())
		}
	})
	assert.LessOrEqual(t, got, 5.0)
}

// Reading costs a small part of a second per 64 MB.
func BenchmarkScan(b *testing.B) {
	for name, stream := range map[string]string{
		"anthropic": anthropicStart + strings.Repeat(strings.ReplaceAll(anthropicText, "\\\"", ""), 5000) + anthropicLast, "quotes": anthropicStart + strings.Repeat(anthropicText, 5000) + anthropicLast, "chat": strings.Repeat(chatText, 5000) + chatUsage + chatDone,
		"gemini": strings.Repeat(gemini1, 2500) + gemini2,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			h, all := header(sse), []byte(stream)
			for b.Loop() {
				s := bodies.NewScanner(h)
				for p := all; len(p) > 0; {
					n := min(len(p), 4096)
					_, _ = s.Write(p[:n])
					p = p[n:]
				}
				s.End(true)
			}
		})
	}
}

func ExampleScanner() {
	s := bodies.NewScanner(http.Header{"Content-Type": {"text/event-stream"}})
	_, _ = s.Write([]byte("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":300,\"completion_tok"))
	_, _ = s.Write([]byte("ens\":120}}\n\ndata: [DONE]\n\n"))
	s.End(true)
	u := s.Usage()
	fmt.Println(u.Input, u.Output, u.Complete)
	// Output: 300 120 true
}

package bodies_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// A stream of Bedrock states its use, its end and its failures, however its bytes come.
func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		answer emulator.Answer
		usage  bodies.Usage
		class  bodies.Class
	}{
		"whole":    {emulator.Answer{}, bodies.Usage{Input: 500, CacheRead: 70, Output: 200, Known: true, Complete: true}, bodies.None},
		"cut":      {emulator.Answer{Cut: 0.5}, bodies.Usage{Output: 100}, bodies.None},
		"throttle": {emulator.Answer{Cut: 0.5, Error: "throttlingException"}, bodies.Usage{Output: 100}, bodies.Wait},
		"failure":  {emulator.Answer{Cut: 0.5, Error: "serviceUnavailableException"}, bodies.Usage{Output: 100}, bodies.Alone},
	} {
		t.Run(name, func(t *testing.T) {
			c.answer.Input, c.answer.CacheRead, c.answer.Output = 500, 70, 200
			api, err := emulator.NewBedrock(emulator.BedrockConfig{Tokens: 100_000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return c.answer }}})
			require.NoError(t, err)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/model/m/converse-stream", strings.NewReader(`{}`))
			require.NoError(t, err)
			response, err := emulator.RoundTripper(api).RoundTrip(request)
			require.NoError(t, err)
			text, _ := io.ReadAll(response.Body)
			for _, size := range []int{1, 7, 100, len(text)} {
				scan := bodies.NewScanner(response.Header)
				for part := range slices.Chunk(text, size) {
					_, _ = scan.Write(part)
				}
				scan.End(true)
				u := scan.Usage()
				if !c.usage.Complete {
					assert.InDelta(t, c.usage.Output, u.Output, 60)
					u.Output = c.usage.Output
				}
				assert.Equal(t, c.usage, u)
				assert.Equal(t, c.class, bodies.Classify(bodies.Bedrock, 200, response.Header, scan.Failure(), time.Now()).Class)
			}
		})
	}
	scan := bodies.NewScanner(ofFrames)
	_, _ = fmt.Fprint(scan, strings.Repeat("no frame ", 100))
	assert.Zero(t, scan.Usage())
}

var ofFrames = http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}

// frame returns a frame with one header.
func frame(name, value, payload string) []byte {
	headers := fmt.Sprintf("%c%s\a\x00%c%s", len(name), name, len(value), value)
	sizes := binary.BigEndian.AppendUint64(nil, uint64(16+len(headers)+len(payload))<<32|uint64(len(headers))) //nolint:gosec // small
	return fmt.Appendf(sizes, "1234%s%s5678", headers, payload)
}

// A failure counts whatever its frame says beside its name.
func TestFramesOfFailures(t *testing.T) {
	for _, header := range []string{":exception-type", ":error-code"} {
		for payload, window := range map[string]string{
			`{"message":"Too many tokens"}`: "tokens", " {\n\"message\": \"Too many tokens\" }\n": "tokens",
			`{}`: "", ` { } `: "", ``: "", ` `: "", `slow down`: "", `"slow down"`: "", `{"message":`: "", `[{"a":1}]`: "",
		} {
			scan := bodies.NewScanner(ofFrames)
			_, _ = scan.Write(frame(header, "throttlingException", payload))
			got := bodies.Classify(bodies.Bedrock, 200, ofFrames, scan.Failure(), time.Now())
			assert.Equal(t, bodies.Refusal{Class: bodies.Wait, Window: window, Reason: "ThrottlingException"}, got, "%s %q", header, payload)
		}
	}
}

// chunk returns a frame with an event in the model's own format.
func chunk(event string) []byte {
	return frame(":event-type", "chunk", fmt.Sprintf(`{"bytes":%q,"p":"abc"}`, base64.StdEncoding.EncodeToString([]byte(event))))
}

// A model that is invoked states its use in the last event of its stream, whatever it says before.
func TestFramesOfInvokedModels(t *testing.T) {
	text := slices.Concat(
		chunk(`{"type":"message_start","message":{"usage":{"input_tokens":500,"cache_read_input_tokens":70,"output_tokens":1}}}`),
		chunk(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello \"amazon-bedrock\""}}`),
		chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":500,"outputTokenCount":200,"invocationLatency":9000,"firstByteLatency":3000,"cacheReadInputTokenCount":70,"cacheWriteInputTokenCount":9}}`))
	for size := range 40 {
		scan := bodies.NewScanner(ofFrames)
		for part := range slices.Chunk(text, size+1) {
			_, _ = scan.Write(part)
		}
		scan.End(false) // the SDK need not read on
		assert.Equal(t, bodies.Usage{Input: 500, CacheRead: 70, CacheWrite: 9, Output: 200, Known: true, Complete: true}, scan.Usage())
	}
}

// The use of streams that do not state it.
func TestFramesWithoutUsage(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		whole bool
		usage bodies.Usage
	}{
		"invoked, whole":         {chunk(`{"text":"hello"}`), true, bodies.Usage{Output: 3}},
		"invoked, cut":           {chunk(`{"text":"hello"}`), false, bodies.Usage{Output: 3}},
		"no JSON":                {frame(":event-type", "chunk", "?"), true, bodies.Usage{}},
		"use of tools, cut":      {frame(":event-type", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a\":12}"}}}`), false, bodies.Usage{Output: 5}},
		"too long for any frame": {[]byte("\xff\xff\xff\xff\x00\x00\x00\x001234"), true, bodies.Usage{Complete: true}},
	} {
		t.Run(name, func(t *testing.T) {
			scan := bodies.NewScanner(ofFrames)
			for range 2 {
				_, _ = scan.Write(c.frame)
			}
			scan.End(c.whole)
			assert.Equal(t, c.usage, scan.Usage())
		})
	}
}

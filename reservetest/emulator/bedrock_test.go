package emulator_test

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func newBedrock(t *testing.T, config emulator.BedrockConfig) *emulator.Bedrock {
	t.Helper()
	api, err := emulator.NewBedrock(config)
	require.NoError(t, err)
	return api
}

// Each rule of an account, with calls that keep it and calls that do not.
func TestBedrockRules(t *testing.T) {
	uses := emulator.Wire{Answer: answers(emulator.Answer{Input: 500, CacheRead: 9000, Output: 200})}
	for _, c := range []struct {
		name   string
		config emulator.BedrockConfig
		asks   []ask
	}{
		{"maxTokens are reserved, and five for each token of the answer count in the end", emulator.BedrockConfig{Tokens: 3000, Wire: uses}, []ask{
			{max: 2501, want: "429 Too many tokens, please wait"}, {max: 2500, want: `200 "outputTokens":200`}, {max: 1001, want: "429"}, {max: 1000, want: "200"}, {max: 1, want: "429"}, {after: 11 * time.Second, max: 1, want: "200"},
		}},
		{"without maxTokens the most of the model is reserved", emulator.BedrockConfig{Tokens: 64_499, Wire: uses}, []ask{{want: "429"}, {max: 1000, want: "200"}}},
		{"a day's tokens", emulator.BedrockConfig{Tokens: 90_000, Daily: 2500, Wire: uses}, []ask{
			{max: 1000, want: "200"}, {max: 1000, want: "429 Too many tokens per day"}, {after: 24 * time.Hour, max: 1000, want: "200"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newBedrock(t, c.config)
				for i, a := range c.asks {
					time.Sleep(a.after)
					body := "{}"
					if a.max > 0 {
						body = `{"inferenceConfig":{"maxTokens":` + strconv.Itoa(a.max) + `}}`
					}
					status, h, text := post(t, api, "/model/claude/converse", body)
					want, contains, _ := strings.Cut(a.want, " ")
					assert.Equal(t, want, strconv.Itoa(status), "call %d: %s", i, text)
					assert.Contains(t, text, contains)
					assert.Empty(t, h.Get("Retry-After"))
				}
			})
		})
	}
}

// A signature that is older than five minutes is refused.
func TestBedrockSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newBedrock(t, emulator.BedrockConfig{Tokens: 900_000})
		for age, want := range map[time.Duration]int{0: 200, 5 * time.Minute: 200, 5*time.Minute + time.Second: 403} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/model/m/converse", strings.NewReader("{}"))
			require.NoError(t, err)
			r.Header.Set("X-Amz-Date", time.Now().Add(-age).UTC().Format("20060102T150405Z"))
			response, err := emulator.RoundTripper(api).RoundTrip(r)
			require.NoError(t, err)
			_ = response.Body.Close()
			assert.Equal(t, want, response.StatusCode, age)
		}
		synctest.Wait()
	})
}

// The stream consists of messages with checksums, and its usage comes last. A client that goes away does not end it.
func TestBedrockStreams(t *testing.T) {
	for name, closes := range map[string]bool{"whole": false, "cut by the client": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newBedrock(t, emulator.BedrockConfig{Tokens: 900_000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 500, Output: 400, PerSecond: 100})}})
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/model/m/converse-stream", strings.NewReader(`{"inferenceConfig":{"maxTokens":1000}}`))
				require.NoError(t, err)
				response, err := emulator.RoundTripper(api).RoundTrip(r)
				require.NoError(t, err)
				if closes {
					time.Sleep(time.Second)
					_ = response.Body.Close()
					time.Sleep(10 * time.Second)
				} else {
					body, err := io.ReadAll(response.Body)
					require.NoError(t, err)
					_ = response.Body.Close()
					last := ""
					for len(body) > 0 {
						n := binary.BigEndian.Uint32(body)
						require.Equal(t, crc32.ChecksumIEEE(body[:8]), binary.BigEndian.Uint32(body[8:]))
						require.Equal(t, crc32.ChecksumIEEE(body[:n-4]), binary.BigEndian.Uint32(body[n-4:]))
						last, body = string(body[12:n-4]), body[n:]
					}
					assert.Contains(t, last, `{"usage":{"inputTokens":500,"outputTokens":400`)
				}
				synctest.Wait()
				assert.InDelta(t, 500+5*400, api.Report().Limit("tokens").Used, 0)
				assert.Zero(t, api.Report().Open)
			})
		})
	}
}

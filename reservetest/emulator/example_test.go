package emulator_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// t is the *testing.T of your test.
var t = new(testing.T)

// Three calls of 20,000 tokens come to an account that allows 30,000 per minute.
func Example() {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{
			Requests: 50, Input: 30_000, Output: 8_000,
			Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
				return emulator.Answer{Input: 20_000, Output: 300, PerSecond: 100}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: emulator.RoundTripper(api)}
		for range 3 {
			response, err := client.Post("https://api.anthropic.com/v1/messages", "application/json", strings.NewReader(`{"model":"claude-fable-5","stream":true}`))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			fmt.Printf("%d %q\n", response.StatusCode, response.Header.Get("Retry-After"))
			time.Sleep(20 * time.Second)
		}
		for _, limit := range api.Report().Limits {
			fmt.Printf("%s: %.0f used, %d calls refused\n", limit.Name, limit.Used, limit.Refused)
		}
	})
	// Output:
	// 200 ""
	// 200 ""
	// 429 "14"
	// input-tokens: 40000 used, 1 calls refused
	// output-tokens: 600 used, 0 calls refused
	// requests: 2 used, 0 calls refused
}

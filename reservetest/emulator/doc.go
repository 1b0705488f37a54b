// Package emulator has strict copies of APIs that count costs: [Anthropic], [OpenAI], [Azure],
// [Gemini], [Bedrock], [Shopify] and [GitHub]. Tests run a fleet against them without an account.
//
//	api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8_000})
//	client := &http.Client{Transport: emulator.RoundTripper(api)}
//	... // your fleet calls any address through the client
//	for _, limit := range api.Report().Limits {
//		fmt.Println(limit.Name, limit.Refused)
//	}
//
// Each emulator is an [http.Handler], for [net/http/httptest.NewServer] or for [RoundTripper]. It
// runs in the simulated time of [testing/synctest] and in real time. It judges each request when
// it arrives, answers in the provider's JSON and events, and records refusals and use. Your
// [Answer] says what a model answers, and where its stream breaks. The rules follow the
// providers' documentation of 2026. The sizes of the limits are yours to set, because each
// account has its own.
package emulator

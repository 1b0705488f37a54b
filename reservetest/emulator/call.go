package emulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Call is a request for an answer of a model, as the provider reads it.
type Call struct {
	Request *http.Request
	Model   string
	Stream  bool
	Prompt  int  // the tokens of the prompt by the provider's estimate: a quarter of the request's bytes
	Max     int  // the most tokens that the answer may have; 0: the request does not say
	Choices int  // n and best_of, at least 1
	Usage   bool // the stream states its usage also where the request has to ask for it
}

// Answer is what a model answers to a call, and how its response travels.
type Answer struct {
	Input      int // tokens of the prompt that no cache held; 0: Call.Prompt, unless a cache had some
	CacheRead  int // tokens of the prompt that a cache held
	CacheWrite int // tokens of the prompt that a cache takes in
	Output     int // tokens of the answer; 0: Call.Max, and at most 200

	// Estimate is what the provider believes that the prompt counts when it admits the call. 0: it
	// knows the count.
	Estimate int

	Late      time.Duration // how long the request is on its way, until the provider judges it
	Wait      time.Duration // until the first byte
	PerSecond float64       // tokens of the answer per second; 0: all at once

	// Cut is the share of the answer after which the provider ends the stream without a last event.
	// 0: the stream is complete.
	Cut float64
	// Reset makes the cut break the connection. Otherwise the body ends as if it were complete.
	Reset bool
	// Error is the provider's word for a failure that the stream reports at its cut, such as
	// "overloaded_error", although its status is 200.
	Error string

	// Refuse is the provider's word for a refusal that does not depend on a limit, such as
	// "overloaded_error" with its status.
	Refuse string
	Status int
}

func (a Answer) withDefaults(c Call) Answer {
	if a.Input == 0 && a.CacheRead == 0 && a.CacheWrite == 0 {
		a.Input = c.Prompt
	}
	if a.Output == 0 {
		a.Output = min(200, cmp.Or(c.Max, 200))
	}
	if c.Max > 0 {
		a.Output = min(a.Output, c.Max)
	}
	return a
}

// takes is how long the tokens of the answer take.
func (a Answer) takes() time.Duration {
	if a.PerSecond <= 0 {
		return 0
	}
	return time.Duration(float64(a.Output) / a.PerSecond * float64(time.Second))
}

// wish holds the fields of requests that count, of all providers.
type wish struct {
	Model               string `json:"model"`
	Stream              bool   `json:"stream"`
	MaxTokens           int    `json:"max_tokens"`
	MaxCompletionTokens int    `json:"max_completion_tokens"`
	MaxOutputTokens     int    `json:"max_output_tokens"`
	N                   int    `json:"n"`
	BestOf              int    `json:"best_of"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	GenerationConfig struct {
		MaxOutputTokens int `json:"maxOutputTokens"`
	} `json:"generationConfig"`
	InferenceConfig struct {
		MaxTokens int `json:"maxTokens"`
	} `json:"inferenceConfig"`
}

// callOf reads a request. The model may stand in the path: /models/NAME:generateContent, /model/NAME/converse
// and /deployments/NAME/chat/completions.
func callOf(r *http.Request, body []byte) (Call, error) {
	var w wish
	if err := json.Unmarshal(body, &w); err != nil {
		return Call{}, err
	}
	c := Call{
		Request: r, Model: w.Model, Stream: w.Stream, Prompt: (len(body) + 3) / 4, Choices: max(1, w.N, w.BestOf), Usage: w.StreamOptions.IncludeUsage,
		Max: max(w.MaxTokens, w.MaxCompletionTokens, w.MaxOutputTokens, w.GenerationConfig.MaxOutputTokens, w.InferenceConfig.MaxTokens),
	}
	parts := strings.FieldsFunc(r.URL.Path, func(c rune) bool { return c == '/' || c == ':' })
	for i, part := range parts[:max(0, len(parts)-1)] {
		if part == "models" || part == "model" || part == "deployments" {
			c.Model = parts[i+1]
		}
	}
	last := ""
	if len(parts) > 0 {
		last = parts[len(parts)-1]
	}
	c.Stream = c.Stream || strings.HasPrefix(last, "stream") || last == "converse-stream"
	return c, nil
}

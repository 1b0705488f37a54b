package bodies

import (
	"math"
	"net/http"
	"strconv"
)

// Usage is what a call has used, by the words of its response. Prompts have Input + CacheRead +
// CacheWrite tokens, whatever the provider calls them.
type Usage struct {
	Input      int // tokens of the prompt that no cache held or takes in
	CacheRead  int // tokens of the prompt that a cache held
	CacheWrite int // tokens of the prompt that a cache takes in

	// Output is how many tokens were produced, with those of reasoning. If a stream was cut, it is
	// at least a quarter of the bytes of its text.
	Output int

	// Cost is what the call costs in the provider's own unit, rounded up, such as the points of a
	// query at Shopify. 0: the response does not say.
	Cost int

	// Known says that the response states the tokens of the prompt, or a Cost. Otherwise nothing is
	// known, except for the Output of a cut stream.
	Known bool

	// Complete says that the response came to its end. Otherwise the provider, the network or the
	// caller has cut it.
	Complete bool
}

// stated are the numbers of a response, each the largest so far: streams repeat them, and they never fall.
type stated struct {
	input, output         int
	cached, read, written int  // cached is a part of input
	tool, thoughts        int  // beside input and output
	inclusive             bool // written is a part of input
	cost                  float64
	bucket, restore       float64
	known                 bool
}

// take takes in a number that stands in an object of usage.
func (s *stated) take(in place, name string, number float64) {
	n := int(min(max(0, number), 1<<40))
	raise := func(to *int) { *to = max(*to, n) }
	switch {
	case in == inCost && name == "actualQueryCost":
		s.cost, s.known = max(s.cost, number), true
	case in == inThrottle && name == "maximumAvailable":
		s.bucket = number
	case in == inThrottle && name == "restoreRate":
		s.restore = number
	case in == inDetails && name == "cached_tokens":
		raise(&s.cached)
	case in == inDetails && name == "cache_write_tokens":
		raise(&s.written)
		s.inclusive = true
	case in != inUsage:
	case name == "input_tokens" || name == "inputTokens":
		raise(&s.input)
		s.known = true
	case name == "prompt_tokens" || name == "promptTokenCount" || name == "inputTokenCount":
		raise(&s.input)
		s.known = true
	case name == "cache_read_input_tokens" || name == "cacheReadInputTokens" || name == "cacheReadInputTokenCount":
		raise(&s.read)
	case name == "cache_creation_input_tokens" || name == "cacheWriteInputTokens" || name == "cacheWriteInputTokenCount":
		raise(&s.written)
	case name == "cachedContentTokenCount":
		raise(&s.cached)
	case name == "toolUsePromptTokenCount":
		raise(&s.tool)
	case name == "output_tokens" || name == "outputTokens" || name == "completion_tokens" || name == "candidatesTokenCount" || name == "outputTokenCount":
		raise(&s.output)
	case name == "thoughtsTokenCount":
		raise(&s.thoughts)
	}
}

// usage returns the numbers in the words of this package. Some providers count cached tokens as a part of the
// input, and thoughts beside the output.
func (s *stated) usage() Usage {
	inside := s.cached
	if s.inclusive {
		inside += s.written
	}
	return Usage{
		Input: max(0, s.input-inside) + s.tool, CacheRead: s.cached + s.read, CacheWrite: s.written, Output: s.output + s.thoughts,
		Cost: int(min(math.Ceil(s.cost), 1<<40)), Known: s.known,
	}
}

// header takes in what the header of a response states of its use, as those of Bedrock and Mistral do.
func (s *stated) header(h http.Header) {
	if n, err := strconv.Atoi(h.Get("X-Ratelimit-Tokens-Query-Cost")); err == nil && n >= 0 {
		s.cost, s.known = float64(n), true
	}
	if h.Get("X-Amzn-Bedrock-Input-Token-Count") == "" {
		return
	}
	for name, to := range map[string]*int{"Input": &s.input, "Output": &s.output, "Cache-Read-Input": &s.read, "Cache-Write-Input": &s.written} {
		if n, err := strconv.Atoi(h.Get("X-Amzn-Bedrock-" + name + "-Token-Count")); err == nil && n >= 0 {
			*to, s.known = n, true
		}
	}
}

package bodies

import "strconv"

// place says which object or array of a document is open.
type place byte

const (
	elsewhere place = iota
	atTop
	inWrapper   // message of Anthropic, response of OpenAI, x_groq
	inUsage     // the tokens
	inDetails   // more about the tokens
	inExtension // of GraphQL
	inCost
	inThrottle
	inCandidates // answers of Gemini
)

// within returns the place of an object or array that stands in another one under a name.
func within(in place, name string) place {
	switch {
	case in == atTop && (name == "message" || name == "response" || name == "x_groq"):
		return inWrapper
	case (in == atTop || in == inWrapper) && (name == "usage" || name == "usageMetadata" || name == "amazon-bedrock-invocationMetrics"):
		return inUsage
	case in == inUsage && (name == "prompt_tokens_details" || name == "input_tokens_details"):
		return inDetails
	case in == atTop && name == "extensions":
		return inExtension
	case in == inExtension && name == "cost":
		return inCost
	case in == inCost && name == "throttleStatus":
		return inThrottle
	case in == atTop && name == "candidates":
		return inCandidates
	}
	return elsewhere
}

const (
	mostOpen = 32 // objects and arrays that are followed; what stands deeper is nobody's usage
	mostText = 40 // bytes of names and numbers; longer ones are unknown
)

// document reads one JSON document in any parts, without building it. It trusts the provider to send JSON: of other
// bytes it makes something or nothing, and never fails.
type document struct {
	stated
	finished bool // the document names the reason for its end

	open     [mostOpen]place
	arrays   uint32 // bit i: open[i] is an array
	depth    int
	text     [mostText]byte // the string or number that is being read, or the name that stands before a value
	n        int
	inString bool
	escaped  bool
	isNumber bool
	named    bool   // a name stands in key, and its value comes next
	key      string // one of the names in words; empty: another one
}

// words are the names that a document remembers.
var words = func() map[string]string {
	all := map[string]string{}
	for _, w := range []string{
		"message", "response", "x_groq", "usage", "usageMetadata", "prompt_tokens_details", "input_tokens_details", "extensions", "cost", "candidates",
		"actualQueryCost", "throttleStatus", "maximumAvailable", "restoreRate", "cached_tokens", "cache_write_tokens", "input_tokens", "inputTokens", "prompt_tokens", "promptTokenCount",
		"cache_read_input_tokens", "cacheReadInputTokens", "cache_creation_input_tokens", "cacheWriteInputTokens", "cachedContentTokenCount",
		"toolUsePromptTokenCount", "output_tokens", "outputTokens", "completion_tokens", "candidatesTokenCount", "thoughtsTokenCount", "finishReason",
		"amazon-bedrock-invocationMetrics", "inputTokenCount", "outputTokenCount", "cacheReadInputTokenCount", "cacheWriteInputTokenCount",
	} {
		all[w] = w
	}
	return all
}()

// begin forgets what is open. The numbers stay.
func (d *document) begin() {
	d.depth, d.n, d.inString, d.escaped, d.isNumber, d.named, d.key = 0, 0, false, false, false, false, ""
}

// in returns the place of what is read, and the zero place if it stands too deep.
func (d *document) in() place {
	switch {
	case d.depth == 0:
		return atTop
	case d.depth > mostOpen:
		return elsewhere
	}
	return d.open[d.depth-1]
}

func (d *document) inArray() bool {
	return d.depth > 0 && d.depth <= mostOpen && d.arrays&(1<<(d.depth-1)) != 0
}

// read takes in the next bytes.
func (d *document) read(p []byte) {
	for _, c := range p {
		if d.inString {
			d.readString(c)
			continue
		}
		if d.isNumber {
			if c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' {
				d.keep(c)
				continue
			}
			d.endNumber()
		}
		switch c {
		case '"':
			d.inString, d.n = true, 0
		case ':':
			d.named = true
		case ',':
			d.named = false
		case '{', '[':
			d.push(c == '[')
		case '}', ']':
			d.depth, d.named = max(0, d.depth-1), false
		default:
			if c >= '0' && c <= '9' || c == '-' {
				d.isNumber, d.n = true, 0
				d.keep(c)
			}
		}
	}
}

func (d *document) readString(c byte) {
	switch {
	case d.escaped:
		d.escaped = false
		d.keep(c)
	case c == '\\':
		d.escaped = true
		d.n = mostText + 1 // no name that counts has escapes
	case c != '"':
		d.keep(c)
	default:
		d.inString = false
		switch {
		case d.named || d.inArray(): // a value
			if d.named && d.key == "finishReason" && d.in() == inCandidates && d.n > 0 {
				d.finished = true
			}
			d.named = false
		case d.n <= mostText:
			d.key = words[string(d.text[:d.n])]
		default:
			d.key = ""
		}
	}
}

// keep adds a byte to the text. A text that is too long is unknown.
func (d *document) keep(c byte) {
	if d.n < mostText {
		d.text[d.n] = c
	}
	d.n = min(d.n+1, mostText+1)
}

func (d *document) endNumber() {
	d.isNumber = false
	if !d.named || d.key == "" || d.n > mostText {
		return
	}
	if number, err := strconv.ParseFloat(string(d.text[:d.n]), 64); err == nil {
		d.take(d.in(), d.key, number)
	}
}

func (d *document) push(array bool) {
	in := d.in()
	if !d.inArray() && d.depth > 0 { // the elements of an array stand where the array stands
		name := ""
		if d.named {
			name = d.key
		}
		in = within(in, name)
	}
	if d.depth < mostOpen {
		d.open[d.depth] = in
		d.arrays &^= 1 << d.depth
		if array {
			d.arrays |= 1 << d.depth
		}
	}
	d.depth, d.named, d.key = d.depth+1, false, ""
}

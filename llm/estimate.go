package llm

import (
	"encoding/json"
	"io"
	"net/http"
)

// Estimate is what a call will use, in tokens.
type Estimate struct {
	Input  int // of the prompt, without what a cache holds, unless the provider counts that
	Output int // of the answer, on average
	Max    int // max_tokens of the request; 0: the request names none

	bytes int // of the request's text
	route string
}

// mostBody is how much of a request is read.
const mostBody = 8 << 20

// parameters are where the APIs have the largest number of tokens to produce.
type parameters struct {
	A      int `json:"max_tokens"`
	B      int `json:"max_completion_tokens"`
	C      int `json:"max_output_tokens"`
	Gemini struct {
		Max int `json:"maxOutputTokens"`
	} `json:"generationConfig"`
	Bedrock struct {
		Max int `json:"maxTokens"`
	} `json:"inferenceConfig"`
}

func (p *parameters) most() int { return max(0, p.A, p.B, p.C, p.Gemini.Max, p.Bedrock.Max) }

// estimate returns what a request will use.
func (s *Set) estimate(r *http.Request) Estimate {
	route := wishesOf(r.Context()).route
	if route == "" {
		route = r.URL.Path
	}
	if s.config.Estimate != nil {
		e := s.config.Estimate(r)
		e.route = route
		return e
	}
	e := Estimate{route: route, bytes: int(max(0, r.ContentLength))}
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			text, err := io.ReadAll(io.LimitReader(body, mostBody))
			_ = body.Close()
			if err == nil {
				var p parameters
				_ = json.Unmarshal(text, &p) // without them, the most is not known
				e.Max, e.bytes = p.most(), textBytes(text)
			}
		}
	}
	s.learns.estimate(r.Context(), &e)
	if most := e.Max; most > 0 {
		e.Output = min(e.Output, most)
	}
	return e
}

const (
	bytesPerToken  = 4
	tokensPerImage = 1600
	leastData      = 2000 // a longer string without a space is data, such as an image
)

// textBytes returns how many bytes of text a JSON document has. A string of data counts as one image.
func textBytes(doc []byte) (n int) {
	inString, plain, escaped, from := false, true, false, 0
	for i, c := range doc {
		switch {
		case !inString:
			n++
			inString, plain, from = c == '"', true, i+1
		case escaped:
			escaped = false
		case c == '\\':
			plain, escaped = false, true
		case c == '"':
			inString = false
			if size := i - from; plain && size > leastData {
				n += tokensPerImage * bytesPerToken
			} else {
				n += size + 1
			}
		case c <= ' ' || c > '~':
			plain = false
		}
	}
	return n
}

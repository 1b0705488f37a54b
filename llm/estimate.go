package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Estimate is what a call will use, in tokens. A call reserves at least 1 of each limit, and its
// settlement may be 0.
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

// generates reports whether a request uses tokens of the limits. Other requests, such as one for a list or a file, count
// no tokens, and providers do not count them as requests to a model. Batches have limits of their own.
func generates(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return r.Header.Get("Upgrade") != "" // to a protocol in which tokens are used
	}
	return !slices.ContainsFunc(strings.FieldsFunc(r.URL.Path, func(c rune) bool { return c == '/' || c == ':' }), func(word string) bool {
		return slices.Contains([]string{"files", "uploads", "batches", "batchGenerateContent", "cancel", "count_tokens", "count-tokens", "countTokens", "input_tokens"}, word)
	})
}

// readable returns a request whose body can be read more than once, if it is a JSON document of up to mostBody.
func readable(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody || r.GetBody != nil || !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return r, nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		_ = r.Body.Close()
		return nil, err
	}
	rest := r.Body
	r = r.WithContext(r.Context()) // a copy: the caller's request stays as it is
	if len(text) == mostBody {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), rest), rest}
		return r, nil
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	r.Body, _ = r.GetBody()
	return r, rest.Close()
}

// routeOf returns a path without its IDs, which would make a route of each of them: words with digits or of more than
// 32 bytes. The last word of a path at Gemini has the model and the method.
func routeOf(path string) string {
	words := strings.Split(path, "/")
	for i, word := range words {
		id, method, _ := strings.Cut(word, ":")
		if len(id) > 32 || strings.ContainsAny(id, "0123456789") && !version.MatchString(id) {
			words[i] = strings.TrimSuffix("*:"+method, ":")
		}
	}
	return strings.Join(words, "/")
}

var version = regexp.MustCompile(`^v\d{1,2}([a-z]+\d?)?$`)

// estimate returns what a request will use.
func (s *Set) estimate(r *http.Request) Estimate {
	route := cmp.Or(wishesOf(r.Context()).route, routeOf(r.URL.Path))
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
	s.learns.estimate(r.Context(), &e, cmp.Or(e.Max, s.preset.MostOutput, mostOutput))
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

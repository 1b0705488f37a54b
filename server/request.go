package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	largestBody = 64 << 10
	usualBody   = 4 << 10
	bodyTime    = 5 * time.Second // how long a body may take to arrive
	longestID   = 200             // bytes
)

// read reads the body of a request. If it is wrong, it responds and reports false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := readBody(w, r, into)
	if err != nil {
		refuse(w, err)
	}
	return err == nil
}

// refuse responds with an error. It has a function of its own, as problems are large: with them on their stacks,
// requests that wait would need twice the memory for these.
func refuse(w http.ResponseWriter, err error) { answer(w, problemOf(err, "")) }

// indexes finds array indexes in a field name of encoding/json. Go 1.26 leaves them out.
var indexes = regexp.MustCompile(`\.([0-9]+)`)

// decoder reads the bodies of requests, one after the other: a new one for each body would cost more
// than what it does. After an error it is not used again.
type decoder struct {
	*json.Decoder
	from io.Reader
	body []byte // as far as it was read
}

var decoders = sync.Pool{New: func() any {
	d := &decoder{}
	d.Decoder = json.NewDecoder(d)
	d.DisallowUnknownFields()
	return d
}}

func (d *decoder) Read(into []byte) (int, error) {
	n, err := d.from.Read(into)
	d.body = append(d.body, into[:n]...)
	return n, err
}

func isJSON(kind string) bool {
	if kind == "application/json" { // most often
		return true
	}
	kind, given, err := mime.ParseMediaType(kind)
	charset := given["charset"]
	return err == nil && kind == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	// A web page may send bodies of some other types to a server of this machine; this type it may not.
	if given := r.Header.Get("Content-Type"); !isJSON(given) {
		return wrongType(given)
	}
	d, _ := decoders.Get().(*decoder)
	d.from, d.body = http.MaxBytesReader(w, r.Body, largestBody), d.body[:0]
	began := d.InputOffset()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			err = validateText(d.body)
			if size := len(d.body); size <= usualBody && d.InputOffset()-began == int64(size) { // nothing of it is left
				d.from = nil
				decoders.Put(d)
			}
			return err
		}
	}
	return wrongBody(err, d.body)
}

func wrongType(given string) error {
	return problem{
		Status: http.StatusUnsupportedMediaType, Field: "Content-Type", Value: given,
		Detail: "Content-Type must be application/json, in UTF-8", after: -1,
	}
}

// wrongBody returns the problem of a body that could not be decoded. Nil: there is more than one object.
func wrongBody(err error, body []byte) error {
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return wrong("body", nil, "must be one JSON object")
	case errors.As(err, &large):
		return problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The body has more than %d bytes.", largestBody), after: -1}
	case errors.As(err, &kind) && kind.Field != "":
		field := indexes.ReplaceAllString(strings.TrimPrefix(kind.Field, "call."), "[$1]")
		if of, ok := strings.CutPrefix(field, "limits."); ok {
			field = fmt.Sprintf("limits[%d].%s", wrongLimit(body), of)
		}
		if number, is := strings.CutPrefix(kind.Value, "number "); is {
			return wrong(field, json.Number(number), "must be a whole number, got "+number)
		}
		return wrong(field, kind.Value, "must not be of type "+kind.Value)
	case strings.HasPrefix(err.Error(), unknownField):
		return wrong(strings.Trim(err.Error()[len(unknownField):], `"`), nil, "is not a field of this request: see /v1/openapi.yaml")
	default:
		return wrong("body", nil, "must be JSON as /v1/openapi.yaml describes it: "+err.Error())
	}
}

// wrongLimit returns the index of the first limit that cannot be decoded.
func wrongLimit(body []byte) int {
	var q struct{ Limits []json.RawMessage }
	_ = json.NewDecoder(bytes.NewReader(body)).Decode(&q) // its syntax is right, or there would be another error
	return max(0, slices.IndexFunc(q.Limits, func(limit json.RawMessage) bool { return json.Unmarshal(limit, &part{}) != nil }))
}

// unknownField begins an error of encoding/json.
const unknownField = "json: unknown field "

// validateText checks what encoding/json accepts although it is wrong.
func validateText(body []byte) error {
	if !utf8.Valid(body) {
		return wrong("body", nil, "must be UTF-8")
	}
	if field, fault := (&scanner{text: body}).value(false); fault != "" {
		return wrong(field, nil, fault)
	}
	return nil
}

// durationOf reads a text such as 10s. An empty text is 0.
func durationOf(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, wrong(field, text, "must be a duration of 0 or above, such as 500ms or 10s")
	}
	return d, nil
}

// call has the fields that all requests for turns share.
type call struct {
	Limits []part   `json:"limits"`
	Flow   string   `json:"flow"`
	Share  string   `json:"share"` // the earlier name of flow
	Weight *float64 `json:"weight"`
	Urgent bool     `json:"urgent"`
}

// largestCost is the largest whole number that all languages read exactly.
const largestCost = min(1<<53, math.MaxInt)

// part is one limit of a call.
type part struct {
	Name string          `json:"name"`
	Key  json.RawMessage `json:"key"`
	Cost *float64        `json:"cost"` // JSON of other languages may write 2 as 2.0
}

// validate checks the fields, as far as it can without the limits.
func (c *call) validate() error {
	if len(c.Limits) < 1 || len(c.Limits) > 8 {
		return wrong("limits", len(c.Limits), fmt.Sprintf("must be from 1 to 8, got %d", len(c.Limits)))
	}
	if c.Flow != "" && c.Share != "" {
		return wrong("share", c.Share, "is the earlier name of flow: give one of them")
	}
	for i, p := range c.Limits {
		if p.Name == "" {
			return wrong(fmt.Sprintf("limits[%d].name", i), "", "must not be empty")
		}
		if p.Cost == nil {
			continue
		}
		field, text := fmt.Sprintf("limits[%d].cost", i), strconv.FormatFloat(*p.Cost, 'f', -1, 64)
		switch cost := *p.Cost; {
		case cost != math.Trunc(cost) || math.Abs(cost) > largestCost:
			return wrong(field, cost, "must be a whole number, got "+text)
		case cost < 1:
			return wrong(field, cost, "must be 1 or above, got "+text)
		}
	}
	if w := c.Weight; w != nil && !(*w >= 1e-6 && *w <= 1e6) || c.Weight != nil && math.IsNaN(*c.Weight) {
		return wrong("weight", *w, fmt.Sprintf("must be from 0.000001 to 1000000, got %v", *w))
	}
	return nil
}

func validateID(id string) error {
	if len(id) > longestID {
		return wrong("id", nil, fmt.Sprintf("must have at most %d bytes, got %d", longestID, len(id)))
	}
	return nil
}

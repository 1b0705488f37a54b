package headers

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// structured reads RateLimit and RateLimit-Policy of the IETF draft
// (draft-ietf-httpapi-ratelimit-headers):
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=50;t=30
//
// Older versions had one dictionary: RateLimit: limit=100, remaining=50, reset=30.
// Requests are counted unless a policy names a unit (qu).
func structured(header http.Header, _ time.Time) []Window {
	s := set{}
	for _, item := range items(header.Values("Ratelimit-Policy")) {
		name, ok := policyName(item.Value)
		if !ok {
			continue
		}
		w := s.at(name)
		w.Unit = Requests
		w.Limit = param(item, "q")
		w.Period = bounded(param(item, "w"), time.Second)
		if unit, ok := item.Params.Get("qu"); ok {
			if text, ok := policyName(unit); ok {
				w.Unit = text
			}
		}
	}
	for _, item := range items(header.Values("Ratelimit")) {
		name, ok := policyName(item.Value)
		if !ok {
			continue
		}
		if _, known := s[name]; !known {
			s.at(name).Unit = Requests
		}
		w := s.at(name)
		// A list may hold one policy for several partitions: the lowest one counts.
		if remaining, ok := natural(item, "r"); ok && (w.Remaining < 0 || remaining < w.Remaining) {
			w.Remaining = remaining
			w.Reset = bounded(param(item, "t"), time.Second)
		}
	}
	if list := s.list(); list != nil {
		return list
	}
	return dictionary(header)
}

func dictionary(header http.Header) []Window {
	fields, err := httpsfv.UnmarshalDictionary(header.Values("Ratelimit"))
	if err != nil {
		return nil
	}
	value := func(name string) (float64, bool) {
		member, ok := fields.Get(name)
		if !ok {
			return 0, false
		}
		item, ok := member.(httpsfv.Item)
		if !ok {
			return 0, false
		}
		return notNegative(item.Value)
	}
	w := Window{Unit: Requests, Remaining: -1}
	w.Limit, _ = value("limit")
	if n, ok := value("remaining"); ok {
		w.Remaining = n
	}
	if n, ok := value("reset"); ok {
		w.Reset = bounded(n, time.Second)
	}
	if w.Limit <= 0 && w.Remaining < 0 {
		return nil
	}
	others := policies(header.Values("Ratelimit-Policy"), &w)
	return append([]Window{w}, others...)
}

// items returns the members of a list that are not lists themselves.
func items(values []string) []httpsfv.Item {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil
	}
	var items []httpsfv.Item
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			items = append(items, item)
		}
	}
	return items
}

// policyName also accepts a token, which servers send although the draft requires a string.
func policyName(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return word(v), word(v) != ""
	case httpsfv.Token:
		return word(string(v)), word(string(v)) != ""
	}
	return "", false
}

// param returns the first of these parameters that is a number above 0. Without one it returns 0.
func param(item httpsfv.Item, names ...string) float64 {
	for _, name := range names {
		if n, ok := natural(item, name); ok && n > 0 {
			return n
		}
	}
	return 0
}

func natural(item httpsfv.Item, name string) (float64, bool) {
	if item.Params == nil {
		return 0, false
	}
	value, ok := item.Params.Get(name)
	if !ok {
		return 0, false
	}
	return notNegative(value)
}

func positive(value any) (float64, bool) {
	n, ok := notNegative(value)
	return n, ok && n > 0
}

func notNegative(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), v >= 0
	case float64:
		return v, v >= 0
	}
	return 0, false
}

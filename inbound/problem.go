package inbound

import (
	"encoding/json"
	"net/http"
)

// problem is a problem document (RFC 9457).
type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// The types: the one of the IETF's draft, and the one that says no more than the status.
const (
	typeQuota = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeBlank = "about:blank"
)

func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // of strings and a number: it does not happen
		w.WriteHeader(p.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may have disconnected
}

// plain answers with a status, which Go's text of it explains.
func plain(w http.ResponseWriter, status int, detail string) {
	problem{Type: typeBlank, Title: http.StatusText(status), Status: status, Detail: detail}.write(w)
}

// refusal is the default of Config.Refuse. With several limits, it is not known which of them
// refused.
func refusal(policies []string) http.Handler {
	if len(policies) > 1 {
		policies = nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem{
			Type:             typeQuota,
			Title:            "Too many requests",
			Status:           http.StatusTooManyRequests,
			Detail:           "The limit is used up. Try again in " + w.Header().Get("Retry-After") + " s.",
			ViolatedPolicies: policies,
		}.write(w)
	})
}

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

// problem is a problem document (RFC 9457), and an error. Of a field that is wrong it names the
// field and the value.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Value  any    `json:"value,omitempty"`

	after time.Duration // Retry-After; below 0: none
}

func (p problem) Error() string { return p.Detail }

// wrong is of a field that is wrong.
func wrong(field string, value any, detail string) problem {
	return problem{Status: http.StatusBadRequest, Field: field, Value: value, Detail: field + " " + detail, after: -1}
}

// away is of a server that gives no turns for now.
func away(detail string) problem {
	return problem{Status: http.StatusServiceUnavailable, Detail: detail, after: time.Second}
}

// problemOf says what an error is to the caller. The field is the one that it is most likely of.
func problemOf(err error, field string) problem {
	var known problem
	var typed *reserve.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, limits.ErrUnknown):
		return problem{Status: http.StatusNotFound, Field: field, Detail: err.Error(), after: -1}
	case errors.Is(err, reserve.ErrWouldMissDeadline) && errors.As(err, &typed):
		return tooLate(typed.Wait)
	case errors.Is(err, reserve.ErrExceedsBurst), errors.Is(err, reserve.ErrInvalid), errors.Is(err, limits.ErrInvalid):
		return problem{Status: http.StatusBadRequest, Field: field, Detail: err.Error(), after: -1}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return away("The request has ended.")
	default:
		return away(err.Error())
	}
}

// tooLate is of a call that does not wait until its turn.
func tooLate(wait time.Duration) problem {
	return problem{
		Type: "https://iana.org/assignments/http-problem-types#quota-exceeded", Title: "Too late", Status: http.StatusTooManyRequests,
		Detail: "The turn would come in " + wait.Round(time.Millisecond).String() + ".", after: wait,
	}
}

// answer writes what an answer is made of: a problem, or any other value with 200.
func answer(w http.ResponseWriter, body any) {
	p, bad := body.(problem)
	if !bad {
		write(w, http.StatusOK, "application/json", body)
		return
	}
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		retryAfter(w, p.after)
	}
	write(w, p.Status, "application/problem+json", p)
}

func retryAfter(w http.ResponseWriter, after time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(max(0, after.Seconds())), 'f', 0, 64))
}

func write(w http.ResponseWriter, status int, kind string, body any) {
	encoded, err := json.Marshal(body)
	if err != nil { // of our own types: it does not happen
		text(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // a client that is gone cannot be told
}

func millis(d time.Duration) float64 {
	return math.Round(max(0, float64(d))/float64(time.Microsecond)) / 1000
}

package server

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

// problem is a problem document (RFC 9457), and an error. For a wrong field it has the field's name
// and value.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Value  any    `json:"value,omitempty"`
	*stop

	after time.Duration // the Retry-After header; below 0: no header
}

// stop is what a response says of a hard stop.
type stop struct {
	Scope  string    `json:"scope"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"`
}

// stopOf returns the stop that an error is about, or nil.
func stopOf(err error) *stop {
	var stopped *reserve.Exhausted
	if !errors.As(err, &stopped) {
		return nil
	}
	return &stop{stopped.Scope, stopped.Reason, stopped.Until.UTC()}
}

func (p problem) Error() string { return p.Detail }

// wrong returns the problem of a wrong field.
func wrong(field string, value any, detail string) problem {
	return problem{Status: http.StatusBadRequest, Field: field, Value: value, Detail: field + " " + detail, after: -1}
}

// away returns the problem of a server that grants no turns for now.
func away(detail string) problem {
	return problem{Status: http.StatusServiceUnavailable, Detail: detail, after: time.Second}
}

// problemOf returns the problem for an error. The field is the one that most likely caused it.
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
	case errors.Is(err, reserve.ErrQueueFull) && errors.As(err, &typed):
		p := tooLate(typed.Wait)
		p.Title, p.Detail = "Queue full", "Too many calls wait at this limit."
		return p
	case errors.Is(err, reserve.ErrExhausted):
		p := tooLate(nextProbe)
		of := stopOf(err)
		if of != nil && !of.Until.IsZero() {
			p = tooLate(min(time.Until(of.Until), 24*time.Hour)) // it may end earlier
		}
		p.stop = of
		p.Title, p.Detail = "Exhausted", err.Error()
		return p
	case errors.Is(err, reserve.ErrExceedsBurst), errors.Is(err, reserve.ErrInvalid):
		return problem{Status: http.StatusBadRequest, Field: field, Detail: err.Error(), after: -1}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return away("The request has ended.")
	default:
		return away(err.Error())
	}
}

// nextProbe is when a client may try again that has met a hard stop whose end nobody knows.
const nextProbe = 5 * time.Minute

// tooLate returns the problem of a call whose turn would come after its deadline.
func tooLate(wait time.Duration) problem {
	return problem{
		Type: "https://iana.org/assignments/http-problem-types#quota-exceeded", Title: "Too late", Status: http.StatusTooManyRequests,
		Detail: "The turn would come in " + wait.Round(time.Millisecond).String() + ".", after: wait,
	}
}

// answer writes a response: a problem, or any other value with status 200.
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
	if err != nil { // our own types never fail
		text(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // the client may be gone
}

func millis(d time.Duration) float64 {
	return math.Round(max(0, float64(d))/float64(time.Microsecond)) / 1000
}

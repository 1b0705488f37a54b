package bodies

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// answer is a response that may be a refusal.
type answer struct {
	status int
	header http.Header
	now    time.Time
	body   body
}

// body has what the errors of all providers say.
type body struct {
	fault
	Error    *fault  `json:"error"`
	Errors   []fault `json:"errors"`
	Response struct {
		Error *fault `json:"error"`
	} `json:"response"`
	Extensions struct {
		Cost struct {
			Requested float64 `json:"requestedQueryCost"`
			Throttle  struct {
				Available float64 `json:"currentlyAvailable"`
				Rate      float64 `json:"restoreRate"`
			} `json:"throttleStatus"`
		} `json:"cost"`
	} `json:"extensions"`
}

// fault is one error.
type fault struct {
	Type       text            `json:"type"`
	AmazonType text            `json:"__type"`
	Code       text            `json:"code"`
	Status     text            `json:"status"`
	Message    text            `json:"message"`
	Details    json.RawMessage `json:"details"`
	Extensions struct {
		Code text `json:"code"`
	} `json:"extensions"`
}

// text is a string, a number, or anything else, which is empty.
type text string

func (t *text) UnmarshalJSON(p []byte) error {
	var s string
	if json.Unmarshal(p, &s) == nil {
		*t = text(s)
		return nil
	}
	if _, err := strconv.ParseFloat(string(p), 64); err == nil {
		*t = text(p)
	}
	return nil
}

// parse reads the body. A body that is no JSON says nothing. Gemini puts its errors into an array.
func (a *answer) parse(p []byte) {
	if json.Unmarshal(p, &a.body) == nil {
		return
	}
	a.body = body{}
	var list []body
	if json.Unmarshal(p, &list) == nil && len(list) > 0 {
		a.body = list[0]
	}
}

// failed reports whether the body reports a failure.
func (a *answer) failed() bool {
	return a.body.Error != nil || a.body.Response.Error != nil || len(a.body.Errors) > 0
}

// fault returns the first error of the body. Some providers write it as the document itself.
func (a *answer) fault() fault {
	switch {
	case a.body.Error != nil:
		return *a.body.Error
	case a.body.Response.Error != nil:
		return *a.body.Response.Error
	case len(a.body.Errors) > 0:
		return a.body.Errors[0]
	}
	return a.body.fault
}

// says reports whether the message has any of these texts, in any case.
func (f *fault) says(any ...string) bool {
	message := strings.ToLower(string(f.Message))
	for _, text := range any {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

var (
	againIn    = regexp.MustCompile(`try again in ((?:\d+(?:\.\d+)?(?:h|ms|m|s))+)`)
	retryAfter = regexp.MustCompile(`retry after (\d+) second`)
	isoDate    = regexp.MustCompile(`\d{4}-\d{2}-\d{2}`)
)

// wait returns the time that the message names.
func (f *fault) wait() time.Duration {
	message := strings.ToLower(string(f.Message))
	if m := againIn.FindStringSubmatch(message); m != nil {
		d, _ := time.ParseDuration(m[1])
		return d
	}
	if m := retryAfter.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		return time.Duration(min(n, int(longest/time.Second))) * time.Second
	}
	return 0
}

// until returns the time to the date that the message names, at 00:00 UTC.
func (f *fault) until(now time.Time) time.Duration {
	day, err := time.Parse(time.DateOnly, isoDate.FindString(string(f.Message)))
	if err != nil {
		return 0
	}
	return max(0, day.Sub(now))
}

// nextMonth returns the time to the first day of the next month, at 00:00 UTC.
func nextMonth(now time.Time) time.Duration {
	y, m, _ := now.UTC().Date()
	return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
}

// nextDay returns the time to midnight of a zone.
func nextDay(now time.Time, zone *time.Location) time.Duration {
	y, m, d := now.In(zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, zone).Sub(now)
}

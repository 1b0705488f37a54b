package example

import (
	"fmt"
	"regexp"
	"strings"
)

// address is the input of the demo API.
type address struct {
	Street, Postcode, City, Country string
}

func (a address) missing() string {
	for _, f := range []struct{ name, value string }{
		{"street", a.Street}, {"postcode", a.Postcode}, {"city", a.City}, {"country", a.Country},
	} {
		if strings.TrimSpace(f.value) == "" {
			return f.name
		}
	}
	return ""
}

// postcodes are the formats of countries.
var postcodes = map[string]*regexp.Regexp{
	"AT": regexp.MustCompile(`^[1-9]\d{3}$`),
	"DE": regexp.MustCompile(`^\d{5}$`),
	"FR": regexp.MustCompile(`^\d{5}$`),
	"GB": regexp.MustCompile(`^[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}$`),
	"NL": regexp.MustCompile(`^[1-9]\d{3} [A-Z]{2}$`),
	"PL": regexp.MustCompile(`^\d{2}-\d{3}$`),
	"SE": regexp.MustCompile(`^\d{3} \d{2}$`),
	"US": regexp.MustCompile(`^\d{5}(-\d{4})?$`),
}

// Verdict is the result that the API sells.
type Verdict struct {
	Label       string `json:"label"`
	Deliverable bool   `json:"deliverable"`
	Reason      string `json:"reason,omitempty"`
}

// verdict returns the result that the API sells: a label, and whether mail could arrive.
func (a address) verdict() Verdict {
	v := Verdict{Label: fmt.Sprintf("%s, %s %s, %s", a.Street, a.Postcode, a.City, a.Country)}
	switch form, known := postcodes[a.Country]; {
	case !known:
		v.Reason = "unknown country"
	case !form.MatchString(a.Postcode):
		v.Reason = "not a postcode of " + a.Country
	default:
		v.Deliverable = true
	}
	return v
}

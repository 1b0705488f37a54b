package inbound

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"
)

// Headers says which headers tell clients of a limit.
type Headers string

const (
	// HeadersIETF are RateLimit-Policy and RateLimit. It is the default.
	HeadersIETF Headers = "ietf"
	// HeadersLegacy are X-RateLimit-Limit, -Remaining and -Reset.
	HeadersLegacy Headers = "legacy"
	// HeadersBoth are those of HeadersIETF and of HeadersLegacy.
	HeadersBoth Headers = "both"
	// HeadersNone sets none of them. A refusal still has Retry-After.
	HeadersNone Headers = "none"
)

func (h Headers) validate() error {
	switch h {
	case HeadersIETF, HeadersLegacy, HeadersBoth, HeadersNone:
		return nil
	}
	return invalid("Config.Headers", "must be ietf, legacy, both or none, got %.64q", string(h))
}

func (h Headers) ietf() bool   { return h == HeadersIETF || h == HeadersBoth }
func (h Headers) legacy() bool { return h == HeadersLegacy || h == HeadersBoth }

// setPolicy sets what is known without asking. The IETF's fields are lists:
// middleware around this one may have added its own.
func (q Quota) setPolicy(to http.Header, which Headers) {
	if which.ietf() {
		add(to, "RateLimit-Policy", q.Policy, param{"q", q.Permits}, param{"w", seconds(q.Window)})
	}
}

// setFigures sets the figures that change. The legacy fields have room for one limit: the one with
// the smallest remaining fraction. The draft forbids a Retry-After that is earlier than t, so t is
// at most retry.
func setFigures(to http.Header, which Headers, quotas []Quota, retry time.Duration) {
	if len(quotas) == 0 {
		return
	}
	least := quotas[0]
	for _, q := range quotas {
		if which.ietf() {
			add(to, "RateLimit", q.Policy, param{"r", q.Remaining}, param{"t", seconds(min(q.Reset, retry))})
		}
		if q.Remaining*least.Permits < least.Remaining*q.Permits {
			least = q
		}
	}
	if which.legacy() {
		full := time.Now().Add(least.Reset).Round(time.Millisecond) // the same moment in each answer, until a call uses permits
		to.Set("X-RateLimit-Limit", strconv.FormatInt(least.Permits, 10))
		to.Set("X-RateLimit-Remaining", strconv.FormatInt(least.Remaining, 10))
		to.Set("X-RateLimit-Reset", strconv.FormatInt(full.Add(time.Second-1).Unix(), 10))
	}
}

type param struct {
	name  string
	value int64
}

// add adds a structured field: a list of one string with parameters.
func add(to http.Header, field, policy string, params ...param) {
	item := httpsfv.NewItem(policy)
	for _, p := range params {
		item.Params.Add(p.name, p.value)
	}
	text, err := httpsfv.Marshal(httpsfv.List{item})
	if err != nil { // a policy of a Quota that is not ASCII
		return
	}
	to.Add(field, text)
}

// seconds rounds up, so that a client that waits this long is not too early.
func seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

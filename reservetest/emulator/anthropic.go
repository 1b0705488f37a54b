package emulator

import (
	"net/http"
	"time"
)

// AnthropicConfig sets the limits of each model of an account. All sizes are per minute.
type AnthropicConfig struct {
	Wire
	Requests int
	Input    int // tokens that no cache held; tokens that a cache takes in count, too
	Output   int // tokens

	// Holds is how much of its rate a bucket holds. The documentation does not say it. Default: a
	// minute.
	Holds time.Duration

	// Ramp is how much input a minute may use at once. More is allowed up to twice that of the minute before: Anthropic
	// refuses traffic that rises faster, and does not say the factor. 0: no such rule.
	Ramp int

	// ReserveMax admits a call only if max_tokens fit the limit of output, as until 2026. Otherwise
	// output counts while it is produced, and a call is admitted if anything is left.
	ReserveMax bool
}

// Anthropic is an account of the Messages API of Anthropic. Make one with [NewAnthropic]. It is
// safe for concurrent use.
type Anthropic struct {
	account
	server
	config AnthropicConfig
}

// NewAnthropic makes an account with full buckets. The error is an [ErrInvalid].
func NewAnthropic(config AnthropicConfig) (*Anthropic, error) {
	if config.Holds == 0 {
		config.Holds = time.Minute
	}
	switch {
	case config.Requests < 1:
		return nil, invalid("AnthropicConfig.Requests", "must be at least 1 per minute, got %d", config.Requests)
	case config.Input < 1:
		return nil, invalid("AnthropicConfig.Input", "must be at least 1 token per minute, got %d", config.Input)
	case config.Output < 1:
		return nil, invalid("AnthropicConfig.Output", "must be at least 1 token per minute, got %d", config.Output)
	case config.Ramp < 0:
		return nil, invalid("AnthropicConfig.Ramp", "must be at least 1 token per minute, or 0 for no such rule, got %d", config.Ramp)
	case config.Holds < time.Second:
		return nil, invalid("AnthropicConfig.Holds", "must be at least a second, got %v", config.Holds)
	}
	a := &Anthropic{config: config}
	a.server = server{a, config.Wire}
	return a, config.Wire.validate()
}

// AnthropicStop is why an account is stopped.
type AnthropicStop int

const (
	AnthropicSpendLimit AnthropicStop = iota // the monthly limit of the tier: 429 without Retry-After
	AnthropicOwnLimit                        // the limit that the customer has set: 400
	AnthropicCredit                          // no credit is left: 400
)

// Stop refuses all calls from now on, until Resume.
func (a *Anthropic) Stop(why AnthropicStop) {
	r := refusal{status: http.StatusBadRequest, word: "invalid_request_error"}
	switch why {
	case AnthropicSpendLimit:
		r = refusal{status: http.StatusTooManyRequests, word: "enforced_spend_limit_reached"}
	case AnthropicOwnLimit:
		r.limit = "usage"
	default:
		r.limit = "credit"
	}
	a.halt(r)
}

func (a *Anthropic) of(model string) (requests, input, output meter) {
	c := &a.config
	return a.limit(model, "requests", func() meter { return perMinute("requests", c.Requests, c.Holds) }),
		a.limit(model, "input-tokens", func() meter { return perMinute("input-tokens", c.Input, c.Holds) }),
		a.limit(model, "output-tokens", func() meter { return perMinute("output-tokens", c.Output, c.Holds) })
}

// admit lets a call in if a request and the estimated input are at hand, and some output.
func (a *Anthropic) admit(now time.Time, c Call, answer Answer) (charge, *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, input, output := a.of(c.Model)
	counted := answer.Input + answer.CacheWrite
	h := &anthropicCharge{of: a, input: input, output: output, counted: float64(counted), estimate: float64(counted)}
	if answer.Estimate > 0 {
		h.estimate = float64(answer.Estimate)
	}
	least := 1.0
	if a.config.ReserveMax {
		h.reserved = float64(max(1, c.Max))
		least = h.reserved
	}
	r := a.stopped()
	if r == nil && answer.Refuse != "" {
		r = &refusal{status: answer.Status, word: answer.Refuse}
	}
	if r == nil {
		if wait := output.wait(now, least); wait > 0 {
			left, _ := output.left(now)
			output.refuse()
			r = &refusal{after: wait, limit: "output-tokens", most: output.size(), asked: least, left: left}
		} else {
			needs := []need{{meter: requests, name: "requests", units: 1}, {meter: input, name: "input-tokens", units: h.estimate}}
			if a.config.Ramp > 0 {
				needs = append(needs, need{name: "acceleration", units: h.estimate, meter: a.limit(c.Model, "acceleration", func() meter { return newRamp("acceleration", a.config.Ramp, 2, 1) })})
			}
			r = a.account.admit(now, c.Model, needs)
		}
		if r != nil {
			r.status, r.word = http.StatusTooManyRequests, "rate_limit_error"
		}
	}
	if r != nil {
		a.record(now, c.Model, r.word)
		return nil, r
	}
	if h.reserved > 0 {
		output.take(now, h.reserved)
	}
	return h, nil
}

// anthropicCharge is what an admitted call counts.
type anthropicCharge struct {
	of                *Anthropic
	input, output     meter
	estimate, counted float64
	reserved          float64 // output that was counted when the call was admitted
}

// start corrects the estimate of the input.
func (h *anthropicCharge) start(now time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.input.take(now, h.counted-h.estimate)
}

func (h *anthropicCharge) produce(now time.Time, n float64) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	if h.of.config.ReserveMax {
		h.reserved -= n
		return
	}
	h.output.take(now, n)
}

func (h *anthropicCharge) end(now time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.report.Open--
	if h.reserved > 0 {
		h.output.take(now, -h.reserved)
	}
}

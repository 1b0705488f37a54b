package emulator

import (
	"net/http"
	"time"
)

// OpenAIConfig sets the limits of each model of an account.
type OpenAIConfig struct {
	Wire
	Requests int // per minute
	Tokens   int // per minute
	Project  int // tokens per minute of the project; 0: it has no limit
	Daily    int // requests per day in UTC, which no header states; 0: no limit

	// Holds is how much of its rate a bucket holds. The documentation does not say it. Default: a
	// minute.
	Holds time.Duration

	// Ramp is how many tokens a minute may use at once. More are allowed up to one and a half times of a minute
	// that is 15 to 30 minutes ago. Calls above that are refused with slow_down. 0: no such rule. OpenAI has it above a
	// million tokens per minute.
	Ramp int

	// Refund gives back what a call has reserved and not used. The documentation says nothing of
	// it.
	Refund bool
}

// OpenAI is an account of the Chat Completions and Responses APIs of OpenAI. A call counts the larger of
// its max_tokens and of its prompt, and refused calls count as requests. Make one with [NewOpenAI]. It is
// safe for concurrent use.
type OpenAI struct {
	account
	server
	chat
	config OpenAIConfig
}

// NewOpenAI makes an account with full buckets. The error is an [ErrInvalid].
func NewOpenAI(config OpenAIConfig) (*OpenAI, error) {
	if config.Holds == 0 {
		config.Holds = time.Minute
	}
	switch {
	case config.Requests < 1:
		return nil, invalid("OpenAIConfig.Requests", "must be at least 1 per minute, got %d", config.Requests)
	case config.Tokens < 1:
		return nil, invalid("OpenAIConfig.Tokens", "must be at least 1 per minute, got %d", config.Tokens)
	case config.Project < 0:
		return nil, invalid("OpenAIConfig.Project", "must be at least 1 token per minute, or 0 for no limit, got %d", config.Project)
	case config.Daily < 0:
		return nil, invalid("OpenAIConfig.Daily", "must be at least 1 request, or 0 for no limit, got %d", config.Daily)
	case config.Ramp < 0:
		return nil, invalid("OpenAIConfig.Ramp", "must be at least 1 token per minute, or 0 for no such rule, got %d", config.Ramp)
	case config.Holds < time.Second:
		return nil, invalid("OpenAIConfig.Holds", "must be at least a second, got %v", config.Holds)
	}
	o := &OpenAI{config: config}
	o.server = server{o, config.Wire}
	return o, config.Wire.validate()
}

// Stop refuses all calls from now on, until Resume, with a code such as "insufficient_quota",
// "credit_balance_exhausted" or "organization_spend_limit_exceeded".
func (o *OpenAI) Stop(code string) {
	o.halt(refusal{status: http.StatusTooManyRequests, word: code, limit: "quota"})
}

func (o *OpenAI) of(model string) []need {
	c := &o.config
	needs := []need{
		{name: "requests", units: 1, always: true, meter: o.limit(model, "requests", func() meter { return perMinute("requests", c.Requests, c.Holds) })},
		{name: "tokens", meter: o.limit(model, "tokens", func() meter { return perMinute("tokens", c.Tokens, c.Holds) })},
	}
	if c.Project > 0 {
		needs = append(needs, need{name: "project-tokens", meter: o.limit(model, "project-tokens", func() meter { return perMinute("project-tokens", c.Project, c.Holds) })})
	}
	if c.Ramp > 0 {
		needs = append(needs, need{name: "ramp", meter: o.limit(model, "ramp", func() meter { return newRamp("ramp", c.Ramp, 1.5, 15) })})
	}
	if c.Daily > 0 {
		needs = append(needs, need{name: "requests-day", units: 1, always: true, meter: o.limit(model, "requests-day", func() meter {
			return &window{Limit: Limit{Name: "requests-day"}, most: float64(c.Daily), length: 24 * time.Hour}
		})})
	}
	return needs
}

func (o *OpenAI) admit(now time.Time, c Call, a Answer) (charge, *refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	prompt := a.Estimate
	if prompt == 0 {
		prompt = a.Input + a.CacheRead + a.CacheWrite
	}
	h := &openAICharge{of: o, needs: o.of(c.Model), reserved: float64(max(c.Max, prompt)), used: float64(a.Input + a.CacheRead + a.CacheWrite + a.Output)}
	for i, n := range h.needs {
		if n.units == 0 {
			h.needs[i].units = h.reserved
		}
	}
	r := o.stopped()
	if r == nil && a.Refuse != "" {
		r = &refusal{status: a.Status, word: a.Refuse}
	}
	if r == nil {
		if r = o.account.admit(now, c.Model, h.needs); r == nil {
			return h, nil
		}
		if r.status, r.word = http.StatusTooManyRequests, "rate_limit_exceeded"; r.limit == "ramp" {
			r.word = "slow_down"
		}
	} else {
		h.needs[0].take(now, 1)
	}
	o.record(now, c.Model, r.word)
	return nil, r
}

// openAICharge is what an admitted call counts.
type openAICharge struct {
	of             *OpenAI
	needs          []need
	reserved, used float64
}

func (*openAICharge) start(time.Time)            {}
func (*openAICharge) produce(time.Time, float64) {}

func (h *openAICharge) end(now time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.report.Open--
	if !h.of.config.Refund || h.used >= h.reserved {
		return
	}
	for _, n := range h.needs {
		if n.units == h.reserved {
			n.take(now, h.used-h.reserved)
		}
	}
}

package emulator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// AzureConfig sets the limits of each deployment.
type AzureConfig struct {
	Wire
	Tokens int // per minute, counted by the clock's minute
	// Requests are per minute. Each window of ten seconds allows a sixth of them. Default: 6 for each
	// 1000 tokens.
	Requests int

	// Skew is how far the provider's clock is ahead of the test's, from -1 to 1 minute.
	Skew time.Duration
}

// Azure is a resource of Azure OpenAI with deployments. A call counts its estimated prompt and max_tokens for
// each of its choices. They never come back before the minute ends. Every twentieth response states -1 for what is
// left. Make one with [NewAzure]. It is safe for concurrent use.
type Azure struct {
	account
	server
	chat
	config AzureConfig
	number int
}

const requestWindow = 10 * time.Second

// NewAzure makes a resource that was not used yet. The error is an [ErrInvalid].
func NewAzure(config AzureConfig) (*Azure, error) {
	if config.Requests == 0 {
		config.Requests = config.Tokens * 6 / 1000
	}
	switch {
	case config.Tokens < 1:
		return nil, invalid("AzureConfig.Tokens", "must be at least 1 per minute, got %d", config.Tokens)
	case config.Requests < 6:
		return nil, invalid("AzureConfig.Requests", "must be at least 6 per minute, one for each ten seconds, got %d", config.Requests)
	case config.Skew < -time.Minute || config.Skew > time.Minute:
		return nil, invalid("AzureConfig.Skew", "must be from -1m to 1m, got %v", config.Skew)
	}
	a := &Azure{config: config, account: account{skew: config.Skew}}
	a.server = server{a, config.Wire}
	return a, config.Wire.validate()
}

// SetTokens changes the limit of tokens per minute, as Azure does for hours when it lacks capacity.
func (a *Azure) SetTokens(perMinute int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config.Tokens = perMinute
}

func (a *Azure) of(model string) []need {
	tokens := a.limit(model, "tokens", func() meter { return &window{Limit: Limit{Name: "tokens"}, length: time.Minute} }).(*window)
	tokens.most = float64(a.config.Tokens)
	return []need{
		{name: "tokens", meter: tokens},
		{name: "requests", units: 1, meter: a.limit(model, "requests", func() meter {
			return &window{Limit: Limit{Name: "requests"}, most: float64(a.config.Requests / 6), length: requestWindow}
		})},
	}
}

func (a *Azure) admit(now time.Time, c Call, answer Answer) (charge, *refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	prompt := answer.Estimate
	if prompt == 0 {
		prompt = answer.Input + answer.CacheRead + answer.CacheWrite
	}
	needs := a.of(c.Model)
	needs[0].units = float64(prompt + c.Max*c.Choices)
	r := a.stopped()
	if r == nil && answer.Refuse != "" {
		r = &refusal{status: answer.Status, word: answer.Refuse}
	}
	if r == nil {
		if r = a.account.admit(now.Add(a.config.Skew), c.Model, needs); r == nil {
			return &azureCharge{a}, nil
		}
		r.status, r.word = http.StatusTooManyRequests, "429"
	}
	a.record(now, c.Model, r.word)
	return nil, r
}

// azureCharge is an admitted call. Its reserved tokens stay counted.
type azureCharge struct{ of *Azure }

func (*azureCharge) start(time.Time)            {}
func (*azureCharge) produce(time.Time, float64) {}

func (h *azureCharge) end(time.Time) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.report.Open--
}

// headers states the limits. The reset of the tokens has another spelling.
func (a *Azure) headers(h http.Header, now time.Time, c Call, _ Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	for _, n := range a.of(c.Model) {
		left, full := n.left(now.Add(a.config.Skew))
		text := strconv.Itoa(int(max(0, left)))
		if a.number%20 == 0 {
			text = "-1"
		}
		h.Set("X-Ratelimit-Remaining-"+n.name, text)
		if n.name == "tokens" {
			h.Set("X-Ratelimit-Limit-Tokens", strconv.Itoa(a.config.Tokens))
			h.Set("X-Rate-Limit-Reset-Tokens", strconv.Itoa(int(math.Ceil(full.Seconds()))))
		}
	}
	h.Set("Date", now.Add(a.config.Skew).UTC().Format(http.TimeFormat))
}

func (*Azure) refused(h http.Header, _ time.Time, r *refusal) []byte {
	text := "The system is currently experiencing high demand and cannot process your request."
	if r.limit != "" {
		kind := map[string]string{"tokens": "token", "requests": "call"}[r.limit]
		seconds := int(math.Ceil(min(r.after, 24*time.Hour).Seconds()))
		h.Set("Retry-After-Ms", strconv.FormatInt(min(r.after, 24*time.Hour).Milliseconds()+1, 10))
		h.Set("Policy-Id", "DeploymentRatelimit-Token")
		text = fmt.Sprintf("Requests have exceeded %s rate limit of your current pricing tier. Please retry after %d seconds.", kind, seconds)
	}
	return fmt.Appendf(nil, `{"error":{"code":%q,"message":%s}}`, r.word, quote(text))
}

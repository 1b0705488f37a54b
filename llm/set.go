package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// Usage is what a call has used.
type Usage = bodies.Usage

// Config says which limits a Set keeps. Account and Preset are required.
type Config struct {
	// Account is the name of the account, such as "anthropic/prod": what one credential pays for. Sets of the
	// same account share its calls at once and its hard stop. Up to 64 bytes without braces and colons.
	Account string

	// Preset is the model and its limits.
	Preset Preset

	// Slots is how many calls of the account may be open at once, from 1 to 1,000. 0: 1,000. -1: any number, as fits an
	// account without such a limit, or with a higher one. Sets of an account must agree.
	Slots int

	// Share is the part of each limit that this fleet uses, above 0 and at most 1, if others use the account,
	// too. 0: 1.
	Share float64

	// Background is the part of the tokens that all calls but [Urgent] ones may use, above 0 and at most 1. The
	// rest is there at once for urgent calls. 0: 1.
	Background float64

	// HoldWhenExhausted keeps waiting calls in the queue while the account is used up. By default they fail with
	// ErrExhausted.
	HoldWhenExhausted bool

	// Estimate returns what a request will use, if you know it better than the package, for example by a
	// tokenizer of your own. Default: by the bytes of the request, and by what earlier calls used.
	Estimate func(*http.Request) Estimate

	Prefix  string         // see [reserve.Config.Prefix]
	Outage  reserve.Outage // see [reserve.Config.Outage]
	Logger  *slog.Logger   // see [reserve.Config.Logger]; default slog.Default()
	Retries int            // how often Client repeats a refused request that may be repeated: see [transport.Retry]
}

// Set is the limits of one model of one account. Make one with New, keep it for as long as the process runs, and Close
// it before the client of Redis. It is safe for concurrent use.
type Set struct {
	config Config
	preset Preset
	limits []*reserve.Limiter // those of the preset, and the slots last
	ofs    []kind             // of the limits
	model  *reserve.Joint     // the limits without the slots: a refusal that names none of them pauses these, and other models go on
	behind []*reserve.Limiter // what calls need, too, that are not urgent: see Config.Background
	behOfs []kind
	bursts []atomic.Int64 // of the limits, and of those behind: what a call may cost
	learns *learns
	unset  sync.Once // for the warning that requests name no max_tokens

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup // what runs in the background; guarded by mu, unless closed
}

// background runs f, unless the Set is closed.
func (s *Set) background(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.busy.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellFor)
		defer cancel()
		f(ctx)
	})
}

// kind says what a limit counts.
type kind int

const (
	requests kind = iota
	tokens
	input
	output
	calls
)

var kindNames = [...]string{"requests", "tokens", "input", "output", "calls"}

const (
	mostSlots = 1000
	noSlots   = -1
)

// unlimited is the limit of an account without slots: hard stops need a limit of the account. It delays no call.
var unlimited = reserve.PerSecond(1_000_000).Burst(1_000_000)

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("llm: %w Config.%s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c *Config) validate() error {
	p := &c.Preset
	switch {
	case c.Account == "" || len(c.Account) > 64 || strings.ContainsAny(c.Account, "{}:"):
		return invalid("Account", "must be from 1 to 64 bytes without braces and colons, got %q", c.Account)
	case p.Model == "" || len(p.Model) > 100 || strings.ContainsAny(p.Model, "{}"):
		return invalid("Preset.Model", "must be from 1 to 100 bytes without braces, got %q", p.Model)
	case !p.API.Known():
		return invalid("Preset.API", "must be one of package bodies, such as %q, got %q", bodies.Anthropic, p.API)
	case p.Requests < 0 || p.Tokens < 0 || p.Input < 0 || p.Output < 0:
		return invalid("Preset", "must have figures of 0, for no limit, or above, got %d requests, %d tokens, %d of input, %d of output per minute", p.Requests, p.Tokens, p.Input, p.Output)
	case p.Requests+p.Tokens+p.Input+p.Output == 0:
		return invalid("Preset", "must have a limit: set Requests, Tokens, Input or Output")
	case p.Counting < CountUsed || p.Counting > CountSum:
		return invalid("Preset.Counting", "must be one of the constants, got %d", p.Counting)
	case p.OutputFactor < 0 || p.MostOutput < 0 || p.Burst < 0:
		return invalid("Preset", "must have an OutputFactor, MostOutput and Burst of 0 or above, got %d, %d and %v", p.OutputFactor, p.MostOutput, p.Burst)
	case c.Slots < noSlots || c.Slots > mostSlots:
		return invalid("Slots", "must be from 1 to %d, 0 for that number, or %d for any number of calls at once, got %d", mostSlots, noSlots, c.Slots)
	case !(c.Share >= 0 && c.Share <= 1):
		return invalid("Share", "must be above 0 and at most 1, or 0 for 1, got %v", c.Share)
	case !(c.Background >= 0 && c.Background <= 1):
		return invalid("Background", "must be above 0 and at most 1, or 0 for 1, got %v", c.Background)
	case c.Retries < 0:
		return invalid("Retries", "must be 0 or above, got %d", c.Retries)
	}
	return p.Windows.check()
}

// New makes a Set. It sends nothing to Redis. The error is an ErrInvalid that names the field.
func New(client redis.UniversalClient, config Config) (*Set, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.Slots, config.Share, config.Background = cmp.Or(config.Slots, mostSlots), cmp.Or(config.Share, 1), cmp.Or(config.Background, 1)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	p := config.Preset
	p.OutputFactor, p.Burst = cmp.Or(p.OutputFactor, 1), cmp.Or(p.Burst, 10*time.Second)
	s := &Set{config: config, preset: p}
	for of, perMinute := range [...]int{p.Requests, p.Tokens, p.Input, p.Output} {
		if perMinute == 0 {
			continue
		}
		of := kind(of)
		name := p.Model + "/" + kindNames[of]
		if err := s.add(client, name, of, float64(perMinute), &s.limits, &s.ofs); err != nil {
			return nil, err
		}
		if config.Background < 1 && of != requests {
			if err := s.add(client, name+"/background", of, float64(perMinute)*config.Background, &s.behind, &s.behOfs); err != nil {
				return nil, err
			}
		}
	}
	atOnce := unlimited
	if config.Slots != noSlots {
		atOnce = reserve.Concurrent(config.Slots)
	}
	slots, err := s.limiter(client, kindNames[calls], calls, atOnce)
	if err != nil {
		return nil, err
	}
	if s.model, err = reserve.All(s.limits...); err != nil {
		s.Close()
		return nil, fmt.Errorf("llm: %w", err)
	}
	s.limits, s.ofs = append(s.limits, slots), append(s.ofs, calls)
	s.bursts = make([]atomic.Int64, len(s.limits)+len(s.behind))
	for i, l := range slices.Concat(s.limits, s.behind) {
		s.bursts[i].Store(int64(l.Limit().MaxBurst()))
	}
	s.learns = newLearns(client, config)
	return s, nil
}

// add adds a limit of a number per minute.
func (s *Set) add(client redis.UniversalClient, name string, of kind, perMinute float64, limits *[]*reserve.Limiter, ofs *[]kind) error {
	perMinute *= s.config.Share
	burst := max(1, int(perMinute*s.preset.Burst.Minutes()))
	switch {
	case s.preset.Minutes && of == requests:
		burst = max(1, int(perMinute/600))
		perMinute = max(perMinute/2, perMinute-6*float64(burst)) // a window has a sixth of them
	case s.preset.Minutes:
		perMinute = max(perMinute/2, perMinute-1.25*float64(burst)) // calls that are late on their way may fall into the next window
	}
	l, err := s.limiter(client, name, of, reserve.PerMinute(perMinute).Burst(burst))
	if err == nil {
		*limits, *ofs = append(*limits, l), append(*ofs, of)
	}
	return err
}

func (s *Set) limiter(client redis.UniversalClient, name string, of kind, limit reserve.Limit) (*reserve.Limiter, error) {
	l, err := reserve.New(client, reserve.Config{
		Name: strings.ReplaceAll(name, ":", "."), Group: s.config.Account, Limit: limit, Prefix: s.config.Prefix, Outage: s.config.Outage, Logger: s.config.Logger,
		Settles: of != calls && of != requests,
	})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("llm: %w", err)
	}
	if s.config.HoldWhenExhausted {
		l = l.Staying()
	}
	return l, nil
}

// Close ends all waits, and returns when the costs of calls and requests that have ended are settled. Close the client of
// Redis later.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.busy.Wait()
	for _, l := range slices.Concat(s.limits, s.behind) {
		_ = l.Close()
	}
}

// Limits returns the limits that every call needs: those of requests and tokens, and the slots of the account last.
// With [Config.Background] below 1, calls that are not urgent also need limits that are not among them.
func (s *Set) Limits() *reserve.Joint {
	joint, err := reserve.All(s.limits...)
	if err != nil { // only after Close
		return nil
	}
	return joint
}

// Resume ends a hard stop of the account and the model, and a pause of their limits.
func (s *Set) Resume(ctx context.Context) error { return s.all(ctx, (*reserve.Joint).Resume) }

// Stop stops all calls of the account until a moment; zero: nobody knows the end. See [reserve.Limiter.Stop].
func (s *Set) Stop(ctx context.Context, until time.Time, reason string) error {
	return s.limits[len(s.limits)-1].Stop(ctx, until, reason)
}

func (s *Set) all(ctx context.Context, do func(*reserve.Joint, context.Context) error) error {
	joint, err := reserve.All(slices.Concat(s.limits, s.behind)...)
	if err != nil {
		return err
	}
	return do(joint, ctx)
}

// follows reports whether to try a call again that has failed because a limit in force has a smaller burst. From now
// on, calls cost at most that burst, and the rest is charged afterwards.
func (s *Set) follows(ctx context.Context, err error) bool {
	if !errors.Is(err, reserve.ErrExceedsBurst) {
		return false
	}
	smaller := false
	for i, l := range slices.Concat(s.limits, s.behind) {
		state, err := l.State(ctx)
		if err != nil {
			return false
		}
		burst := int64(state.Limit.MaxBurst())
		smaller = s.bursts[i].Swap(burst) > burst || smaller
	}
	return smaller
}

// need is what a call needs.
func (s *Set) need(ctx context.Context, e Estimate) (transport.Need, *reserve.Joint, error) {
	if e.Max == 0 && s.preset.Counting != CountUsed && s.preset.Tokens > 0 {
		s.unset.Do(func() {
			s.config.Logger.Warn("llm: a request names no max_tokens, so the provider reserves the most that the model may produce: name it, and more calls fit", "limit", s.preset.Model, "reserves", s.preset.MostOutput)
		})
	}
	w := wishesOf(ctx)
	limits, ofs := s.limits, s.ofs
	if !w.urgent && len(s.behind) > 0 {
		limits, ofs = slices.Concat(limits, s.behind), slices.Concat(ofs, s.behOfs)
	}
	need := transport.Need{Account: s.limits[len(s.limits)-1], Pauses: s.model}
	wished := make([]*reserve.Limiter, len(limits))
	for i, l := range limits {
		if w.tenant != nil {
			l = l.Flow(*w.tenant).Weight(w.weight)
		}
		if w.urgent {
			l = l.Urgent()
		}
		wished[i] = l
		cost := min(max(1, s.reserved(ofs[i], e)), int(s.bursts[i].Load()))
		window := "-"
		if i < len(s.ofs) && ofs[i] != calls {
			window = s.preset.Windows.of(ofs[i])
		}
		need.Costs, need.Windows = append(need.Costs, cost), append(need.Windows, window)
	}
	joint, err := reserve.All(wished...)
	need.Limiter = joint
	return need, joint, err
}

// reserved is what a limit of a kind counts when a call begins.
func (s *Set) reserved(of kind, e Estimate) int {
	most := cmp.Or(e.Max, s.preset.MostOutput)
	switch of {
	case tokens:
		switch s.preset.Counting {
		case CountReserved, CountSum:
			return e.Input + most
		case CountLarger:
			return max(e.Input, most)
		}
		return e.Input + e.Output*s.preset.OutputFactor
	case input:
		return e.Input
	case output:
		return e.Output * s.preset.OutputFactor
	}
	return 1
}

// used is what the limits of a turn count in the end, or, if early, so far; below 0: it is not known. nil: nothing is
// known. Where a provider counts an answer while it is produced, so does a limit once that is more than was reserved.
func (s *Set) used(n int, e Estimate, u Usage, early bool) []int {
	p := &s.preset
	prompt := u.Input + u.CacheWrite
	if p.CacheCounts {
		prompt += u.CacheRead
	}
	ofs := slices.Concat(s.ofs, s.behOfs)[:n]
	all := make([]int, n)
	for i, of := range ofs {
		all[i] = -1
		switch {
		case of == calls || of == requests:
		case p.fixed():
			all[i] = s.reserved(of, e) // more than the cost, if that was cut to the burst
		case of == input:
			all[i] = prompt
		case early && p.Counting != CountUsed, p.GoesOn && !u.Complete:
		case of == output:
			all[i] = u.Output * p.OutputFactor
		default:
			all[i] = prompt + u.Output*p.OutputFactor
			if p.API == bodies.OpenAI && u.Cost > 0 { // Mistral states it
				all[i] = u.Cost
			}
		}
		if early && !p.fixed() && of != input && all[i] <= s.reserved(of, e) { // it may still grow
			all[i] = -1
		}
	}
	if slices.Max(all) < 0 {
		return nil
	}
	return all
}

// failed is what the limits of a turn count for a failed call.
func (s *Set) failed(n int, e Estimate) []int {
	switch {
	case !s.preset.FailedCounts:
		used := s.used(n, Estimate{}, Usage{Complete: true}, false)
		for i := range used {
			used[i] = min(used[i], 0)
		}
		return used
	case s.preset.fixed():
		return s.used(n, e, Usage{}, false)
	}
	return nil
}

// elsewhere reports whether an error says that the provider cannot serve a call now, but another one may.
func elsewhere(err error) bool {
	return errors.Is(err, ErrExhausted) || errors.Is(err, reserve.ErrWouldMissDeadline) || errors.Is(err, reserve.ErrQueueFull) || errors.Is(err, context.DeadlineExceeded)
}

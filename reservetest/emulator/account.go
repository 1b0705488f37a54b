package emulator

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Received is a call as it came to an account.
type Received struct {
	At      time.Time
	Model   string
	Refusal string // the provider's word for why it refused the call; empty: it was admitted
}

// Report is what an account has seen so far.
type Report struct {
	Admitted int
	Refused  map[string]int // refused calls, by the provider's word
	// AfterStop are the calls that came although the account had told an earlier call that it is
	// stopped.
	AfterStop int
	Open      int // calls whose responses have not ended
	MostOpen  int // the most of them at a time
	Limits    []Limit
	Calls     []Received
}

// refusal is why an account does not admit a call.
type refusal struct {
	status int
	word   string        // the provider's word
	after  time.Duration // when to try again; 0: it does not say
	limit  string        // the limit that is used up
	most   float64       // its units
	asked  float64       // the units of the call
	left   float64       // its units at hand
}

// need is how many units a call needs of a limit.
type need struct {
	meter
	name   string
	units  float64
	always bool // a refused call counts, too
}

// account holds the limits of a provider's account, and records its calls. It is safe for concurrent use.
type account struct {
	mu     sync.Mutex
	limits map[string]meter // by model and name
	scaled float64          // by Scale so far; 0: not at all
	report Report
	stop   *refusal
	told   bool // a call has been refused with stop
	models map[string]bool
	skew   time.Duration // of the provider's clock
}

// Scale lets each limit per minute be a part of what it was so far, as providers do that lack capacity. Windows stay as
// they are.
func (a *account) Scale(part float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scaled = part * cmp.Or(a.scaled, 1)
	for _, m := range a.limits {
		if b, ok := m.(*bucket); ok {
			b.change(time.Now(), b.rate*part, b.holds*part)
		}
	}
}

// SetLimit changes a limit of a model from now on: "tokens", for example, as [Report] names it. The number is that of a minute, or of
// the window of the limit. It reports false before the first call of the model. For the tokens of Azure, there is
// [Azure.SetTokens].
func (a *account) SetLimit(model, limit string, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m := a.limits[model+" "+limit].(type) {
	case *bucket:
		b := float64(n) / 60 / m.rate
		m.change(time.Now().Add(a.skew), m.rate*b, m.holds*b)
	case *window:
		m.most = float64(n)
	default:
		return false
	}
	return true
}

// Others lets another program use units of a limit of a model. They count as used, also if they do not fit. It reports
// false before the first call of the model.
func (a *account) Others(model, limit string, units float64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.limits[model+" "+limit]
	if m != nil {
		m.take(time.Now().Add(a.skew), units)
	}
	return m != nil
}

// limit returns a limit of a model. It makes the limit at the model's first call.
func (a *account) limit(model, name string, make func() meter) meter {
	if a.limits == nil {
		a.limits = map[string]meter{}
	}
	key := model + " " + name
	m := a.limits[key]
	if m == nil {
		m = make()
		if b, ok := m.(*bucket); ok && a.scaled != 0 {
			b.rate, b.holds, b.level = b.rate*a.scaled, b.holds*a.scaled, b.level*a.scaled
		}
		a.limits[key] = m
	}
	return m
}

// admit judges a call. All of its limits must have its units; otherwise it uses none of them.
func (a *account) admit(now time.Time, model string, needs []need) *refusal {
	var worst time.Duration
	var held *need
	for i := range needs {
		if wait := needs[i].wait(now, needs[i].units); wait > worst {
			worst, held = wait, &needs[i]
		}
	}
	for _, n := range needs {
		if held == nil || n.always {
			n.take(now, n.units)
		}
	}
	if held == nil {
		a.record(now, model, "")
		return nil
	}
	held.refuse()
	left, _ := held.left(now)
	return &refusal{after: worst, limit: held.name, most: held.size(), asked: held.units, left: left}
}

// stopped returns the refusal of an account that is stopped, and nil if it is not.
func (a *account) stopped() *refusal {
	if a.stop == nil {
		return nil
	}
	if a.told {
		a.report.AfterStop++
	}
	a.told = true
	r := *a.stop
	return &r
}

// Resume ends a stop of the account.
func (a *account) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop, a.told = nil, false
}

func (a *account) halt(r refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop, a.told = &r, false
}

// record notes a call. An admitted call is open until its response ends.
func (a *account) record(now time.Time, model, word string) {
	a.report.Calls = append(a.report.Calls, Received{At: now, Model: model, Refusal: word})
	if word != "" {
		if a.report.Refused == nil {
			a.report.Refused = map[string]int{}
		}
		a.report.Refused[word]++
		return
	}
	a.report.Admitted++
	a.report.Open++
	a.report.MostOpen = max(a.report.MostOpen, a.report.Open)
}

// Report returns what the account has seen so far.
func (a *account) Report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.report
	r.Refused, r.Calls = maps.Clone(r.Refused), slices.Clone(r.Calls)
	for _, key := range slices.Sorted(maps.Keys(a.limits)) {
		l := a.limits[key].report(time.Now())
		if len(a.models) > 1 {
			l.Name = key
		}
		r.Limits = append(r.Limits, l)
	}
	slices.SortStableFunc(r.Limits, func(x, y Limit) int { return cmp.Compare(x.Name, y.Name) })
	return r
}

// LongestGap returns the longest time between two calls that were admitted one after the other.
func (r Report) LongestGap() (gap time.Duration) {
	var last time.Time
	for _, c := range r.Calls {
		if c.Refusal != "" {
			continue
		}
		if !last.IsZero() {
			gap = max(gap, c.At.Sub(last))
		}
		last = c.At
	}
	return gap
}

// Limit returns a limit of the report by its name. It is zero if no call has used it.
func (r Report) Limit(name string) Limit {
	for _, l := range r.Limits {
		if l.Name == name {
			return l
		}
	}
	return Limit{}
}

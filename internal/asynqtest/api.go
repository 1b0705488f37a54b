package asynqtest

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// unit is what a permit counts in the rules of an API: they bear parts of one.
const unit = 1000

// bears is by how much a call may be too early: replies of Redis are a little late at
// first, and clocks are read in whole micros.
const bears = 5 * time.Millisecond

// Bucket is the rule of an API that allows a rate and a burst.
func Bucket(perSecond float64, burst int) provider.Rule {
	return provider.TokenBucket(perSecond*unit, burst*unit+int(perSecond*bears.Seconds()*unit))
}

// Window is the rule of an API that allows so many permits in each window.
func Window(n int, window time.Duration) provider.Rule { return provider.FixedWindow(n*unit, window) }

// Rolling is the rule of an API that allows so many permits in any time of that length.
func Rolling(n int, window time.Duration) provider.Rule {
	return provider.RollingWindow(n*unit, window-bears)
}

// Strict is the rule of an API that has that limit itself.
func Strict(limit reserve.Limit) provider.Rule {
	n := limit.MaxBurst()
	switch window := (time.Duration(n) * limit.Interval()).Round(time.Millisecond); limit.Kind() {
	case reserve.KindQuota:
		return Window(n, window)
	case reserve.KindRolling:
		return Rolling(n, window)
	case reserve.KindWarmingUp:
		return Bucket(limit.Rate(), 1)
	default:
		return Bucket(limit.Rate(), n)
	}
}

// Allow makes an API with a name.
func (f *Fleet) Allow(api string, rules ...provider.Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apis[api] = provider.New(rules...)
}

// Call is a call to an API that costs so many permits. One that is refused is an error.
func (f *Fleet) Call(api string, cost int) {
	f.mu.Lock()
	judge := f.apis[api]
	f.mu.Unlock()
	if ok, wait := judge.Judge(cost * unit); !ok {
		f.Errorf("%q refuses a call after %v, which is %v too early", api, time.Since(f.Start), wait)
	}
}

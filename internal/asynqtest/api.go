package asynqtest

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// unit is how much a permit counts in the rules of an API: rules tolerate parts of a permit.
const unit = 1000

// tolerated is how much too early a call may be: replies of Redis are a little late at first, and clocks
// are read in whole micros.
const tolerated = 5 * time.Millisecond

// Bucket is the rule of an API that allows a rate and a burst.
func Bucket(perSecond float64, burst int) provider.Rule {
	return provider.TokenBucket(perSecond*unit, burst*unit+int(perSecond*tolerated.Seconds()*unit))
}

// Window is the rule of an API that allows n permits in each window.
func Window(n int, window time.Duration) provider.Rule { return provider.FixedWindow(n*unit, window) }

// Rolling is the rule of an API that allows n permits in any time of that length.
func Rolling(n int, window time.Duration) provider.Rule {
	return provider.RollingWindow(n*unit, window-tolerated)
}

// Strict is the rule of an API that has exactly that limit.
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

// Allow adds an API with a name.
func (f *Fleet) Allow(api string, rules ...provider.Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apis[api] = provider.New(rules...)
}

// Call calls an API at a cost of so many permits. A refused call is recorded as an error.
func (f *Fleet) Call(api string, cost int) {
	f.mu.Lock()
	judge := f.apis[api]
	f.mu.Unlock()
	if ok, wait := judge.Judge(cost * unit); !ok {
		f.Errorf("%q refuses a call after %v, which is %v too early", api, time.Since(f.Start), wait)
	}
}

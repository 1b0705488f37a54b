package provider

import (
	"fmt"
	"math"
	"time"
)

// slack is how many permits a token bucket may lack when it accepts a call. It only covers
// rounding. The permits are still subtracted, so the error cannot add up.
const slack = 1e-6

// TokenBucket allows perSecond permits per second (a positive number) and holds at most burst
// permits (at least 1). It starts full.
func TokenBucket(perSecond float64, burst int) Rule {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		panic(fmt.Sprintf("provider: TokenBucket(perSecond %v): want a positive, finite number", perSecond))
	}
	if burst < 1 {
		panic(fmt.Sprintf("provider: TokenBucket(burst %d): want at least 1", burst))
	}
	return Rule{start: func(time.Time) state {
		return &tokenBucket{perSecond: perSecond, burst: float64(burst)}
	}}
}

// tokenBucket counts from the last moment at which the bucket was full. The sum of whole permits
// since then is exact. A level that changes by a fraction with every call would drift.
type tokenBucket struct {
	perSecond float64
	burst     float64
	full      time.Duration // when the bucket was last seen full
	taken     float64       // whole permits taken since full, exact below 2^53
}

// level returns the number of permits at a time. It may be above burst.
func (b *tokenBucket) level(at time.Duration) float64 {
	since := at - b.full
	seconds := float64(since / time.Second)
	nanos := float64(since % time.Second)
	// FMA rounds once for the two large numbers, so a long history loses no precision.
	return math.FMA(seconds, b.perSecond, -b.taken) + nanos*b.perSecond/1e9 + b.burst
}

func (b *tokenBucket) wait(at time.Duration, n int) time.Duration {
	if float64(n) > b.burst {
		return Never
	}
	short := float64(n) - min(b.level(at), b.burst)
	if short <= slack {
		return 0
	}
	nanos := math.Ceil(short / b.perSecond * 1e9)
	if nanos >= float64(Never) {
		return Never
	}
	return time.Duration(nanos)
}

func (b *tokenBucket) take(at time.Duration, n int) {
	if b.level(at) >= b.burst {
		b.full, b.taken = at, 0
	}
	b.taken += float64(n)
}

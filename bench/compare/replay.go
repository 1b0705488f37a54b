package main

import (
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// refusals plays moments, in any order, to a strict token bucket that is full at the
// first of them, and counts what it refuses.
func refusals(moments []time.Duration, perSecond float64, burst int) int {
	judge := provider.New(provider.TokenBucket(perSecond, burst))
	zero := time.Unix(0, 0)
	refused := 0
	for _, at := range slices.Sorted(slices.Values(moments)) {
		if ok, _ := judge.JudgeAt(zero.Add(at), 1); !ok {
			refused++
		}
	}
	return refused
}

// burstNeeded is the smallest burst of a strict bucket of that rate that refuses
// none of the moments.
func burstNeeded(moments []time.Duration, perSecond float64) int {
	var level, needed float64
	var before time.Duration
	for _, at := range slices.Sorted(slices.Values(moments)) {
		level = max(0, level-(at-before).Seconds()*perSecond) + 1
		needed, before = max(needed, level), at
	}
	return int(math.Ceil(needed - 1e-6))
}

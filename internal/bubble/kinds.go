package bubble

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// Kind is what calls may need: a limit of one kind, or several limits at once.
type Kind struct {
	Name   string
	Limits []reserve.Limit // a few calls use them up
	Faster []reserve.Limit // the same kinds, with permits for many more calls
	AtOnce int             // how many calls the idle limits let through at once

	// Then is when the next two calls are due, if all calls come at once, six seconds before the
	// end of a minute.
	Then    [2]time.Duration
	Settles bool
}

// Kinds has one Kind for each kind of limit except slots, and one with several limits.
var Kinds = []Kind{
	{
		Name: "paced", Limits: one(paced), AtOnce: 5, Then: [2]time.Duration{time.Second, 2 * time.Second},
		Faster: one(reserve.PerSecond(1000).Burst(5)),
	},
	{
		Name: "warming up", Limits: one(warming), AtOnce: 1, Then: [2]time.Duration{2 * time.Second, 3 * time.Second},
		Faster: one(reserve.PerSecond(1000).Burst(5).WarmUp(2 * time.Second)),
	},
	{
		Name: "quota", Limits: one(quota), AtOnce: 5, Then: [2]time.Duration{6 * time.Second, 6 * time.Second},
		Faster: one(reserve.Quota(50, reserve.CalendarMinute)),
	},
	{
		Name: "rolling", Limits: one(rolling), AtOnce: 5, Then: [2]time.Duration{4 * time.Second, 4 * time.Second},
		Faster: one(reserve.Rolling(50, 4*time.Second)),
	},
	{
		Name: "several", Limits: []reserve.Limit{paced, quota, rolling}, AtOnce: 5, Then: [2]time.Duration{6 * time.Second, 6 * time.Second},
		Faster: []reserve.Limit{
			reserve.PerSecond(1000).Burst(5), reserve.Quota(50, reserve.CalendarMinute), reserve.Rolling(50, 4*time.Second),
		},
	},
}

var (
	paced   = reserve.PerSecond(1).Burst(5)
	warming = reserve.PerSecond(1).Burst(5).WarmUp(2 * time.Second)
	quota   = reserve.Quota(5, reserve.CalendarMinute)
	rolling = reserve.Rolling(5, 4*time.Second)
)

func one(l reserve.Limit) []reserve.Limit { return []reserve.Limit{l} }

// Turns makes the limits of a kind, in one process.
func (b *Bubble) Turns(client *redis.Client, k Kind) reserve.Turns {
	b.Helper()
	if len(k.Limits) == 1 {
		return b.Limiter(client, reserve.Config{Limit: k.Limits[0], Settles: k.Settles})
	}
	configs := make([]reserve.Config, len(k.Limits))
	for i, l := range k.Limits {
		configs[i] = reserve.Config{Limit: l, Settles: k.Settles}
	}
	return b.Joint(client, configs...)
}

// Hasten overrides the limits with the faster ones.
func (b *Bubble) Hasten(turns reserve.Turns, k Kind) {
	b.Helper()
	for i, l := range turns.Limits() {
		if err := l.SetLimit(b.Context(), k.Faster[i], time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}

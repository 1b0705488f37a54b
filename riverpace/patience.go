package riverpace

import (
	"cmp"
	"time"

	"github.com/riverqueue/river"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// margin is for the way of a job through PostgreSQL, and for clocks that differ a little.
	margin = 200 * time.Millisecond

	// slack is by how much a turn may move away without another snooze.
	slack = 400 * time.Millisecond

	// stays is for how many patiences a job may stay in its worker without a turn: nobody
	// knows when a slot is free. It is not so long that River takes the job for a stuck one.
	stays = 4
)

// lead is how long before its turn the snooze of a job has to end. River fetches a job at the
// first look after that: it looks once per FetchPollInterval, up to a tenth later, and not
// within the FetchCooldown. The limiter wants the job back [reserve.Lead] before its turn.
// How often River's scheduler runs does not matter, as that looks ahead.
func lead(config *river.Config) time.Duration {
	poll := cmp.Or(config.FetchPollInterval, river.FetchPollIntervalDefault)
	cooldown := cmp.Or(config.FetchCooldown, river.FetchCooldownDefault)
	for _, queue := range config.Queues {
		poll, cooldown = max(poll, queue.FetchPollInterval), max(cooldown, queue.FetchCooldown)
	}
	return poll + max(poll/10, 10*time.Millisecond) + cooldown + reserve.Lead + margin
}

// Patience is how far away a turn may be for a job to wait for it in its worker. It is 0 before
// [Pacer.Apply].
func (p *Pacer) Patience() time.Duration { return p.patience }

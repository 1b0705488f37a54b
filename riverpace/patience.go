package riverpace

import (
	"cmp"
	"time"

	"github.com/riverqueue/river"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// margin allows for the time that a job takes through PostgreSQL, and for clocks that differ a little.
	margin = 200 * time.Millisecond

	// slack is how far a turn may move away without another snooze.
	slack = 400 * time.Millisecond

	// stays is for how many times Patience a job may stay in its worker without a turn: nobody knows when a
	// slot is free. River does not rescue a job that early.
	stays = 4
)

// lead is how long before its turn the snooze of a job has to end. River fetches a job at the first look
// after that: it looks once per FetchPollInterval, up to a tenth later, and not within the FetchCooldown.
// The limiter needs the job back [reserve.Lead] before its turn. How often River's scheduler runs does not
// matter, as that looks ahead.
func lead(config *river.Config) time.Duration {
	poll := cmp.Or(config.FetchPollInterval, river.FetchPollIntervalDefault)
	cooldown := cmp.Or(config.FetchCooldown, river.FetchCooldownDefault)
	for _, queue := range config.Queues {
		poll, cooldown = max(poll, queue.FetchPollInterval), max(cooldown, queue.FetchCooldown)
	}
	return poll + max(poll/10, 10*time.Millisecond) + cooldown + reserve.Lead + margin
}

// Patience returns how far away a turn may be if its job is to wait in its worker. It is 0 before
// [Pacer.Apply].
func (p *Pacer) Patience() time.Duration { return p.patience }

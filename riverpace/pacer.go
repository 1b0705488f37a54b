package riverpace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/reserve"
)

// Pacer gives each job of a River client its turn. Make one for each client with [New], and
// call [Pacer.Apply] before the client is made. After that it is safe for concurrent use.
type Pacer struct {
	limits reserve.Turns
	config Config

	applied        atomic.Bool
	lead, patience time.Duration
	hint           rate.Sometimes
}

// New makes a Pacer. Its jobs wait for limits, a [reserve.Limiter] or a [reserve.Joint],
// unless Config.Need names others. The error is an [ErrInvalid] that names the field.
func New(limits reserve.Turns, config Config) (*Pacer, error) {
	if limits == nil {
		return nil, invalid("limits", "must not be nil")
	}
	if _, err := reserve.All(limits.Limits()...); err != nil {
		return nil, fmt.Errorf("riverpace: %w limits: %w", ErrInvalid, err)
	}
	if config.Need == nil {
		config.Need = config.Turn
	}
	if config.Need == nil {
		config.Need = func(context.Context, *rivertype.JobRow) (Need, error) { return Need{}, nil }
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Pacer{limits: limits, config: config, hint: rate.Sometimes{First: 1, Interval: 10 * time.Second}}, nil
}

// Apply adds the Pacer to config.Plugins, as the last plugin. Call it once, before river.NewClient, when
// the intervals and queues of config are set. Middleware of config.Middleware runs within the turn, and is
// not called for a job that waits. The error is an [ErrInvalid] that names the field; config is unchanged
// then.
func (p *Pacer) Apply(config *river.Config) error {
	if config == nil {
		return invalid("river.Config", "must not be nil")
	}
	lead := lead(config)
	wait, work := stays*(lead+slack), max(0, cmp.Or(config.JobTimeout, river.JobTimeoutDefault))
	if rescue := config.RescueStuckJobsAfter; rescue != 0 && rescue < wait+work {
		return invalid("river.Config.RescueStuckJobsAfter", "%v is too short: a job may wait for %v and then work for %v, and would"+
			" be worked twice. Use at least %v, or a shorter FetchPollInterval or JobTimeout", rescue, wait, work, wait+work)
	}
	if !p.applied.CompareAndSwap(false, true) {
		return invalid("Pacer", "was applied to a client before: make one Pacer for each")
	}
	p.lead, p.patience = lead, lead+slack
	config.Plugins = append(config.Plugins, &middleware{Pacer: p})
	return nil
}

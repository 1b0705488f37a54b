package adaptive_test

import (
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// bubble is a Redis in simulated time, and the processes that share it.
type bubble struct{ *inbubble.Bubble }

func newBubble(t testing.TB) *bubble { return &bubble{inbubble.New(t)} }

// process is one of the fleet.
type process struct {
	*reserve.Limiter
	rate *adaptive.Rate
}

func (b *bubble) process(limit reserve.Limit, config adaptive.Config) process {
	client := b.Client()
	limiter := b.Limiter(client, reserve.Config{Limit: limit})
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	rate, err := adaptive.New(client, limiter, config)
	require.NoError(b, err)
	b.Cleanup(func() { _ = rate.Close() })
	return process{limiter, rate}
}

func (b *bubble) fleet(n int, limit reserve.Limit, config adaptive.Config) []process {
	var all []process
	for range n {
		all = append(all, b.process(limit, config))
	}
	return all
}

// refused reports a call that was sent just now, and waits for what comes of it.
func (p process) refused() { p.refusedFor(time.Now()) }

func (p process) refusedFor(sent time.Time) {
	p.rate.Report(sent, true)
	synctest.Wait()
}

// uses reports calls at a rate, for some time.
func (p process) uses(perSecond int, d time.Duration) {
	for range int(d.Seconds() * float64(perSecond)) {
		time.Sleep(time.Second / time.Duration(perSecond))
		p.rate.Report(time.Now(), false)
	}
	synctest.Wait()
}

// now is the rate that is in force.
func (p process) now(t testing.TB) float64 {
	state, err := p.State(t.Context())
	require.NoError(t, err)
	return state.Rate
}

// decisions is how many there were.
func (b *bubble) decisions() int {
	n, err := strconv.Atoi(b.Redis.HGet("fleetpace:{api}:adapt", "version"))
	require.NoError(b, err)
	return n
}

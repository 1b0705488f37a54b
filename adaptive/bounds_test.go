package adaptive_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
)

// Whatever is refused, and however well it goes: the rate stays between the two.
func TestFloorAndCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(reserve.PerSecond(20).Burst(3), adaptive.Config{
			Floor: reserve.PerSecond(5), Ceiling: reserve.PerSecond(30), Increase: 4,
		})
		for range 20 {
			time.Sleep(2 * time.Second)
			p.refused()
			require.GreaterOrEqual(t, p.now(t), 5-near)
		}
		require.InDelta(t, 5, p.now(t), near)
		state, err := p.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, state.Burst)
		at := b.decisions()
		for range 20 {
			p.uses(40, 11*time.Second)
			require.LessOrEqual(t, p.now(t), 30+near)
		}
		require.InDelta(t, 30, p.now(t), near)
		require.Equal(t, at+7, b.decisions(), "no more where nothing changes: 9, 13, 17, 21, 25, 29, 30")
	})
}

// A rate is raised once per Every over all processes, and only if it is used.
func TestOneIncreasePerRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fleet := b.fleet(4, reserve.PerSecond(20), adaptive.Config{Ceiling: reserve.PerSecond(100), Increase: 2})
		for range 600 { // a minute at 40/s
			time.Sleep(100 * time.Millisecond)
			for _, p := range fleet {
				p.rate.Report(time.Now(), false)
			}
		}
		synctest.Wait()
		require.InDelta(t, 20+2*5, fleet[0].now(t), 2+near)
		busy := fleet[0].now(t)
		fleet[0].uses(5, 5*time.Minute)
		require.InDelta(t, busy, fleet[0].now(t), 2+near, "a sixth of it is used")
	})
}

// What was found ends an hour after it was set, unless calls are reported.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(reserve.PerSecond(100), adaptive.Config{})
		p.refused()
		for range 5 * 60 {
			time.Sleep(time.Minute)
			p.rate.Report(time.Now(), false)
			synctest.Wait()
			require.InDelta(t, 70, p.now(t), near)
		}
		time.Sleep(45*time.Minute - time.Second)
		require.InDelta(t, 70, p.now(t), near)
		time.Sleep(15*time.Minute + 2*time.Second)
		require.InDelta(t, 100, p.now(t), near)
		time.Sleep(24 * time.Hour)
		require.Empty(t, b.Redis.Keys())
	})
}

// What somebody sets by hand is where the rate goes on from.
func TestSetByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		p := b.process(reserve.PerSecond(100), adaptive.Config{Floor: reserve.PerSecond(2)})
		p.refused()
		require.NoError(t, p.SetLimit(t.Context(), reserve.PerSecond(5), 0))
		time.Sleep(2 * time.Second)
		p.refused()
		require.InDelta(t, 3.5, p.now(t), near)
		require.NoError(t, p.SetLimit(t.Context(), reserve.PerSecond(1), 0))
		time.Sleep(2 * time.Second)
		p.refused()
		require.InDelta(t, 1, p.now(t), near, "below the floor: not raised by a refusal")
		require.NoError(t, p.ResetLimit(t.Context()))
		time.Sleep(2 * time.Second)
		p.refused()
		require.InDelta(t, 70, p.now(t), near)
	})
}

// logged is what was logged. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Without Redis nothing is held up, and what was refused is told later.
func TestRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		b := newBubble(t)
		p := b.process(reserve.PerSecond(100), adaptive.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b.Redis.SetError("LOADING Redis is loading the dataset in memory")
		start := time.Now()
		for range 1000 {
			p.rate.Report(time.Now(), true)
		}
		require.Zero(t, time.Since(start))
		for log.String() == "" {
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), reserve.ErrUnavailable.Error())
		b.Redis.SetError("")
		time.Sleep(900 * time.Millisecond)
		before := b.Scripts.Load()
		p.rate.Report(time.Now(), false)
		synctest.Wait()
		require.Equal(t, before, b.Scripts.Load(), "a second has not passed")
		time.Sleep(100 * time.Millisecond)
		p.rate.Report(time.Now(), false)
		synctest.Wait()
		require.InDelta(t, 70, p.now(t), near)
		require.Contains(t, log.String(), "from=100/s to=70/s")

		require.NoError(t, p.rate.Close())
		require.NoError(t, p.rate.Close())
		time.Sleep(time.Minute)
		before = b.Scripts.Load()
		p.refused()
		require.Equal(t, before, b.Scripts.Load())
	})
}

// A key that holds something else, and a prefix that is not the limiter's, are told.
func TestWhatIsWrongInRedis(t *testing.T) {
	for name, c := range map[string]struct {
		config adaptive.Config
		plant  func(*bubble)
		says   error
	}{
		"another type":             {plant: func(b *bubble) { require.NoError(b, b.Redis.Set("fleetpace:{api}:adapt", "x")) }, says: reserve.ErrCorrupt},
		"another hash":             {plant: func(b *bubble) { b.Redis.HSet("fleetpace:{api}:adapt", "version", "x") }, says: reserve.ErrCorrupt},
		"a limiter's that is none": {plant: func(b *bubble) { b.Redis.HSet("fleetpace:{api}:p", "version", "x") }, says: reserve.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				c.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				b := newBubble(t)
				c.plant(b)
				b.process(reserve.PerSecond(100), c.config).refused()
				require.Contains(t, log.String(), c.says.Error())
			})
		})
	}
}

func TestInvalid(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	limiter := func(l reserve.Limit) *reserve.Limiter {
		limiter, err := reserve.New(client, reserve.Config{Name: "api", Limit: l})
		require.NoError(t, err)
		return limiter
	}
	ten := limiter(reserve.PerSecond(10))
	for want, c := range map[string]adaptive.Config{
		"Config.Floor: reserve: invalid Limit: rate must be a number above 0, got NaN":    {Floor: reserve.PerSecond(math.NaN())},
		"Config.Floor: reserve: invalid Limit: rate must be a number above 0, got 0":      {Floor: reserve.PerSecond(0)},
		"Config.Floor: reserve: invalid Limit: rate must be a number above 0, got -1":     {Floor: reserve.PerSecond(-1)},
		"Config.Ceiling: reserve: invalid Limit: rate must be a number above 0, got +Inf": {Ceiling: reserve.PerSecond(math.Inf(1)), Floor: reserve.PerSecond(1)},
		"Config.Ceiling: must be a rate, such as reserve.PerSecond(10)":                   {Ceiling: reserve.PerSecond(20).WarmUp(time.Second)},
		"Config.Floor: must be at most Config.Ceiling of 20/s":                            {Floor: reserve.PerSecond(30), Ceiling: reserve.PerSecond(20)},
		"Config.Floor: must be at most the limiter's own":                                 {Floor: reserve.PerSecond(11), Ceiling: reserve.PerSecond(20)},
		"Config.Ceiling: must be at least the limiter's own":                              {Ceiling: reserve.PerSecond(9)},
		"Config.Decrease: must be above 0 and below 1, got NaN":                           {Decrease: math.NaN()},
		"Config.Decrease: must be above 0 and below 1, got 1":                             {Decrease: 1},
		"Config.Decrease: must be above 0 and below 1, got -0.5":                          {Decrease: -0.5},
		"above 0, got NaN":  {Increase: math.NaN()},
		"above 0, got +Inf": {Increase: math.Inf(1)},
		"above 0, got -1":   {Increase: -1},
		"Config.Every: must be from 100ms to 10m0s, got -1s":    {Every: -time.Second},
		"Config.Every: must be from 100ms to 10m0s, got 1h0m0s": {Every: time.Hour},
		"Config.Settle: must be above 0 and at most 10m0s":      {Settle: -1},
		"Config.Prefix: must not hold a brace, got \"{\"":       {Prefix: "{"},
		"Config.Prefix: must be at most 128 bytes, got 129":     {Prefix: strings.Repeat("x", 129)},
	} {
		_, err := adaptive.New(client, ten, c)
		assert.ErrorIs(t, err, reserve.ErrInvalid, want)
		assert.ErrorContains(t, err, want)
	}
	_, err := adaptive.New(client, ten, adaptive.Config{Ceiling: reserve.PerSecond(2000)})
	require.NoError(t, err, "the default Floor is at most the limiter's own")
	_, err = adaptive.New(nil, ten, adaptive.Config{})
	require.ErrorContains(t, err, "invalid client")
	_, err = adaptive.New((*redis.Client)(nil), ten, adaptive.Config{})
	require.ErrorContains(t, err, "invalid client")
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	_, err = adaptive.New(ring, ten, adaptive.Config{})
	require.ErrorContains(t, err, "Ring")
	_, err = adaptive.New(client, nil, adaptive.Config{})
	require.ErrorContains(t, err, "invalid limiter")
	_, err = adaptive.New(client, (*reserve.Joint)(nil), adaptive.Config{})
	require.ErrorContains(t, err, "invalid limiter")
}

package wire

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// Where heartbeats are so rare that nobody ever knows all processes, those that have signed off count for a while only.
func TestProcessesThatSignOffAreNotCounted(t *testing.T) {
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	now := time.Unix(1_700_000_000, 0)
	m.SetTime(now)
	keys := scripts.BeatKeys("t", "", "api")
	names := make([]*Name, 10)
	beat := func(i int, ends bool) Pulse {
		n := names[i]
		p, err := Beat(context.Background(), &Heartbeat{Client: c, Process: string(rune('a' + i)), Dead: 3 * time.Second, Life: keys[:2], Ends: ends, Names: []Told{{Name: n, Ends: ends}}})
		require.NoError(t, err)
		return p
	}
	for i := range names {
		names[i] = &Name{Life: keys[:2], Keys: keys[2:], Kind: "p", Pace: 1, Limit: "1/s"}
	}
	for range 6 {
		for i := range names {
			beat(i, false)
		}
		now = now.Add(time.Second)
		m.SetTime(now)
	}
	require.EqualValues(t, 10, names[0].Alive.Load())
	for i := 1; i < 10; i++ {
		beat(i, true)
	}
	for range 60 { // round trips of 700 ms: beats 1.6 s apart
		now = now.Add(1600 * time.Millisecond)
		m.SetTime(now)
		beat(0, false)
	}
	require.EqualValues(t, 1, names[0].Alive.Load())
}

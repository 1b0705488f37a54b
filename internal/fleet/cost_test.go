package fleet_test

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// What a look costs Redis does not grow with the keys of a limit, and it never goes through all
// keys: how many commands is judged, how long they take is told.
func TestCostOfLooking(t *testing.T) {
	const rows = 8
	server := redistest.Private(t, redistest.PrivateOptions{})
	s := newScene(t, server.Server)
	l, _ := s.process(reserve.Config{Limit: reserve.PerSecond(1e5)})
	keys := 0
	for _, until := range []int{100, 10_000} {
		var all sync.WaitGroup
		for part := range 50 {
			all.Go(func() {
				for i := keys + part; i < until; i += 50 {
					assert.NoError(t, l.For(fmt.Sprint("tenant-", i)).Wait(t.Context()))
				}
			})
		}
		all.Wait()
		keys = until
		s.until("it is noted", func() bool { names, err := s.reader.Names(t.Context()); return err == nil && len(names) == 1 })
		_, err := s.reader.Lines(t.Context(), rows, nil) // connects, and loads the script
		require.NoError(t, err)
		require.NoError(t, l.Close()) // its heartbeats are not to be counted
		require.NoError(t, s.client.ConfigResetStat(t.Context()).Err())
		const looks = 20
		var rates fleet.Rates
		for range looks {
			_, err := s.reader.Lines(t.Context(), rows, &rates)
			require.NoError(t, err)
		}
		stats := s.client.Info(t.Context(), "commandstats").Val()
		calls, micros := 0, 0
		for _, m := range regexp.MustCompile(`cmdstat_(\S+?):calls=(\d+),usec=(\d+)`).FindAllStringSubmatch(stats, -1) {
			assert.NotContains(t, []string{"keys", "scan", "smembers"}, m[1])
			if m[1] == "evalsha" || m[1] == "evalsha_ro" || m[1] == "hgetall" || m[1] == "zrange" || m[1] == "time" { // what scripts call counts twice
				n, _ := strconv.Atoi(m[2])
				us, _ := strconv.Atoi(m[3])
				calls, micros = calls+n, micros+us
			}
		}
		t.Logf("MEASURE %d keys: %.1f commands and %v of Redis's time per look", keys, float64(calls)/looks, time.Duration(micros/looks)*time.Microsecond)
		assert.LessOrEqual(t, calls/looks, 40)
		l, _ = s.process(reserve.Config{Limit: reserve.PerSecond(1e5)})
	}
}

package lua

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

var perCall = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`)

// BenchmarkRedis reports Redis's own time per script call, as its commandstats have it, and how
// many calls its slow log has.
func BenchmarkRedis(b *testing.B) {
	client := redistest.Local(b, "--hz", "20").Client(b)
	for _, script := range []*redis.Script{Ask, Leave, Pause} {
		require.NoError(b, script.Load(b.Context(), client).Err())
	}
	paced := queuemodel.Limit{Kind: "p", A: 1, B: 1000}
	slow := queuemodel.Limit{Kind: "p", A: 1e6, B: 5}
	one := []queuemodel.Part{{Cost: 1}}

	// measure runs a call over and over, a millisecond apart.
	measure := func(b *testing.B, call func(n int) error) {
		b.Helper()
		require.NoError(b, call(0))
		require.NoError(b, client.ConfigResetStat(b.Context()).Err())
		require.NoError(b, client.ConfigSet(b.Context(), "slowlog-log-slower-than", "1000").Err())
		require.NoError(b, client.Do(b.Context(), "slowlog", "reset").Err())
		b.ResetTimer()
		for n := range b.N {
			require.NoError(b, call(n+1))
		}
		b.StopTimer()
		info, err := client.Info(b.Context(), "commandstats").Result()
		require.NoError(b, err)
		found := perCall.FindStringSubmatch(info)
		require.NotNil(b, found)
		micros, err := strconv.ParseFloat(found[1], 64)
		require.NoError(b, err)
		b.ReportMetric(micros, "redis-µs/call")
		slow, err := client.Do(b.Context(), "slowlog", "len").Int()
		require.NoError(b, err)
		b.ReportMetric(float64(slow), "above-1-ms")
	}
	idle := func(limits, count int, flow *queuemodel.Flow) func(*testing.B) {
		return func(b *testing.B) {
			s, who, _ := backlog(b, client, paced, 0)
			s.keys = nil
			prefix := redistest.Prefix(b)
			var known []queuemodel.Limit
			var items []queuemodel.Item
			for j := range limits {
				s.keys = append(s.keys, Keys(prefix, "", "api", "p", strconv.Itoa(j))...)
				known = append(known, paced)
				items = append(items, queuemodel.Item{Count: count, Number: 1, Flow: flow, Parts: []queuemodel.Part{{Limit: j, Cost: 1}}})
			}
			measure(b, func(n int) error {
				who.Now, who.Serial = startMicros+float64(n)*1000, n
				heads, _, err := s.Ask(who, known, items)
				for j, h := range heads {
					if h.Text != "" {
						known[j].Known = h.Text
					}
					known[j].Version, known[j].Reach, known[j].Clock = h.Version, h.Reach, who.Now+1000
				}
				return err
			})
		}
	}
	b.Run("idle", idle(1, 1, nil))
	b.Run("idle-of-a-flow", idle(1, 1, &queuemodel.Flow{Name: "tenant", Weight: 1}))
	b.Run("idle-256-calls", idle(1, 256, nil))
	b.Run("idle-100-limits", idle(100, 1, nil))
	for name, waiting := range map[string]int{"0": 0, "1000000": 1000000} {
		b.Run("waiting-"+name, func(b *testing.B) {
			s, who, limits := backlog(b, client, slow, waiting)
			who.Now += 1000
			heads, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: 1e6 - 1, Parts: one}})
			require.NoError(b, err)
			limits[0].Known, limits[0].Version, limits[0].Reach = strings.TrimPrefix(heads[0].Text, "~"), heads[0].Version, heads[0].Reach
			used, err := client.MemoryUsage(b.Context(), s.keys[1], 0).Result()
			if err == nil && waiting > 0 {
				b.Logf("%d bytes per waiting call", used/int64(waiting))
			}
			b.Run("ask", func(b *testing.B) {
				measure(b, func(n int) error {
					_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: 1e7 + n, Parts: one}})
					return err
				})
			})
			b.Run("ask-again", func(b *testing.B) {
				again := []queuemodel.Part{{Cost: 1, Tag: startMicros + 5e6}}
				measure(b, func(int) error {
					_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: 9e6, Parts: again}})
					return err
				})
			})
			b.Run("leave", func(b *testing.B) {
				measure(b, func(n int) error {
					_, _, err := s.Leave(who, limits, 0, "place", strconv.Itoa(int(1e7)+n), 1, nil)
					return err
				})
			})
			b.Run("pause", func(b *testing.B) {
				measure(b, func(n int) error {
					_, _, err := s.Pause(who, limits, 1e6+float64(n), 0)
					return err
				})
			})
		})
	}
	for _, flows := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("flows-%d-and-1000-waiting", flows), func(b *testing.B) {
			s, who, limits := backlog(b, client, slow, 1000)
			who.Now += 1000
			measure(b, func(n int) error {
				item := queuemodel.Item{Count: 1, Number: 1e7 + n, Parts: one}
				if flows > 0 {
					item.Flow = &queuemodel.Flow{Name: strconv.Itoa(n % flows), Weight: 1}
				}
				_, _, err := s.Ask(who, limits, []queuemodel.Item{item})
				return err
			})
		})
	}
	for _, permits := range []int{10_000, 100_000} {
		waiting := max(20_000, permits)
		b.Run(fmt.Sprintf("rolling-%d-and-%d-waiting", permits, waiting), func(b *testing.B) {
			limit := queuemodel.Limit{Kind: "r", A: float64(permits), B: 86400e6}
			s, who, limits := backlog(b, client, limit, permits+waiting)
			who.Now += 1000
			measure(b, func(n int) error {
				_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: 1e7 + n, Parts: one}})
				return err
			})
		})
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// counter counts the commands of a client on its own side, but for those that begin a
// connection.
type counter struct{ commands atomic.Int64 }

func (c *counter) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if !slices.Contains([]string{"hello", "client"}, cmd.Name()) {
			c.commands.Add(1)
		}
	}
}

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// TestCommandsAreCountedAsSent proves that what is read out of Redis's commandstats
// is what the client sent, although scripts call commands, too.
func TestCommandsAreCountedAsSent(t *testing.T) {
	s := onOwnRedis(t)
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			client := s.client()
			defer client.Close()
			sent := &counter{}
			client.AddHook(sent)
			name := s.fresh()
			a, err := c.open(client, plenty(name))
			require.NoError(t, err)
			defer a.close()
			a.cut = false // a command that is cut may not reach Redis
			require.NoError(t, a.ask(t.Context(), ""))
			if c.name == fleetpaceName || c.name == contextName { // its first heartbeat is over
				require.Eventually(t, func() bool {
					return client.HExists(t.Context(), lua.Index(reserve.DefaultPrefix), lua.Indexed("", name)).Val()
				}, time.Minute, time.Millisecond)
			}

			sent.commands.Store(0)
			counted, err := s.counted(t.Context(), c, func() error {
				for range 10 {
					_, err := closedLoop(t.Context(), a, 8, []string{"a", "b"}, 5*time.Millisecond)
					require.NoError(t, err)
				}
				return nil
			})
			require.NoError(t, err)
			switch c.name {
			case leaseName: // it may be about to get more, in nobody's time
			case fleetpaceName, contextName: // a heartbeat may be under way at the begin and at the end
				require.InDelta(t, sent.commands.Load(), counted, 2)
			default:
				require.Equal(t, sent.commands.Load(), counted)
			}
			require.Equal(t, c.sent != nil, counted > 0)
		})
	}
}

func TestClosedLoopStopsAtAnError(t *testing.T) {
	asked := atomic.Int64{}
	a := asker{ask: func(ctx context.Context, _ string) error {
		if asked.Add(1) == 100 {
			return yes(false)
		}
		return ctx.Err()
	}}
	began := time.Now()
	_, err := closedLoop(t.Context(), a, 4, nil, time.Minute)
	require.ErrorContains(t, err, "says no")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestClosedLoopCountsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, closedLoopCountsWhatIsUnderWay)
}

func closedLoopCountsWhatIsUnderWay(t *testing.T) {
	a := asker{ask: func(ctx context.Context, _ string) error { return rest(ctx, 50*time.Millisecond) }}
	got, err := closedLoop(t.Context(), a, 3, nil, 10*time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 3, got.ops)
	require.Equal(t, 50*time.Millisecond, got.elapsed)
}

// lines runs the program and returns its JSON lines by case and contender.
func lines(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	programtest.NeedRedis(t)
	cmd := programtest.Command(t, append([]string{"-json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	require.Empty(t, stderr.String(), "progress is for terminals")
	all := make(map[string]map[string]any)
	for decoder := json.NewDecoder(&stdout); decoder.More(); {
		var line map[string]any
		require.NoError(t, decoder.Decode(&line))
		all[line["case"].(string)+" "+line["contender"].(string)] = line
	}
	return all
}

// TestSmallRun proves that each case has all its figures, and of figures only what holds
// however busy the machine is; TestCallsShareTrips and its neighbours judge the counts.
func TestSmallRun(t *testing.T) {
	t.Parallel()
	all := lines(t, "-seconds", "0.2", "-rounds", "1",
		"-case", "uncontended,parallel-64,rtt-5ms,lease-bursty,memory")
	require.Len(t, all, 8+8+4+2+4)
	for name, line := range all {
		for _, field := range slices.Concat([]string{"case", "contender", ratio}, common) {
			require.Contains(t, line, field, name)
		}
	}
	for _, at := range []string{"uncontended ", "parallel-64 "} {
		for _, contender := range everyone {
			line := all[at+contender]
			require.Positive(t, line[nsPerOp])
			require.Positive(t, line[ratio])
			require.LessOrEqual(t, line[nsPerOp+"_min"], line[nsPerOp+"_max"])
			onlyHere := contender == "uber" || contender == "x/time/rate"
			require.Equal(t, onlyHere, line[cmdsPerOp] == 0.0, contender)
		}
		require.Equal(t, 1.0, all[at+fleetpaceName][ratio])
	}
	require.Equal(t, 1.0, all["uncontended "+pingName][cmdsPerOp])
	require.GreaterOrEqual(t, all["rtt-5ms "+pingName]["wait_ms_p50"], 5.0)
	leased := all["lease-bursty "+leaseName]
	require.Subset(t, slices.Collect(maps.Keys(leased)), []string{"over_granted", "lost_share"})
	require.Greater(t, all["memory "+fleetpaceName]["redis_bytes_per_idle_limit"], 50.0)
	require.Greater(t, all["memory "+fleetpaceName]["redis_bytes_per_waiting_call"], 10.0)
	require.Greater(t, all["memory "+fleetpaceName]["process_bytes_per_key"], 8.0)
}

// Its processes have eight seconds to start in and to make a call.
func TestSmallRunOfAFleet(t *testing.T) {
	t.Parallel()
	all := lines(t, "-seconds", "2", "-case", "accuracy")
	require.Len(t, all, 1)
	accuracy := all["accuracy "+fleetpaceName]
	t.Logf("%v", accuracy)
	require.Positive(t, accuracy[opsPerSec])
	require.Subset(t, slices.Collect(maps.Keys(accuracy)), []string{"refused", "utilization", "lateness_ms_p99", "bare_ms_p99"})
}

func TestOthersDataIsNotEmptied(t *testing.T) {
	t.Parallel()
	s := onOwnRedis(t)
	require.NoError(t, s.admin.Set(t.Context(), "somebody's", "data", 0).Err())
	cmd := programtest.Command(t, "-redis", s.url, "-case", "uncontended", "-seconds", "0.1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "holds 1 keys")
	require.Equal(t, "data", s.admin.Get(t.Context(), "somebody's").Val())
}

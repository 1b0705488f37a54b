package lua

import (
	"context"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// manyTakes runs take.lua on a batch of requests that is made in Redis, and
// replies only how far the line reaches and how long the last ticket waits.
//
// ARGV 1 micros on the test's clock, 2 number of requests, 3 largest cost (the
// costs go 1, 2 … and around), then the arguments of take up to boundMicros.
var manyTakes = redis.NewScript(`
local micros, requests, largest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local args = {}
for k = 1, 9 do args[k] = ARGV[k + 3] end
for k = 1, requests do
  local n = #args
  args[n + 1], args[n + 2], args[n + 3], args[n + 4] = tostring((k - 1) % largest + 1), '-1', 'id', '0'
end
local shadow = { error_reply = redis.error_reply }
shadow.call = function(command, ...)
  if command == 'TIME' then
    return { string.format('%.0f', math.floor(micros / 1000000)), string.format('%.0f', micros % 1000000) }
  end
  return redis.call(command, ...)
end
local function take(KEYS, ARGV, redis)
` + line + take + `
end
local reply = take(KEYS, args, shadow)
if reply.err then return reply end
return { reply[3], reply[#reply - 1], reply[#reply] }
`)

// TestNoDrift takes a hundred thousand tickets, or where it may take long a million (on
// miniredis fewer tickets, and a million permits), and compares the line with exact arithmetic after each batch.
func TestNoDrift(t *testing.T) {
	t.Parallel()
	rates := []struct {
		name     string
		interval *big.Rat // micros
		given    string   // as a caller passes it
	}{
		{"1 per 3s", big.NewRat(3_000_000, 1), "3000000"},
		{"7 per s", big.NewRat(1_000_000, 7), "142857.14285714287"},
		{"600 per min", big.NewRat(100_000, 1), "100000"},
		{"1000000 per s", big.NewRat(1, 1), "1"},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		permits := int64(1_000_000)
		if server.Real() && !long || testing.Short() {
			permits /= 10
		}
		client, largest, batch := patient(t, server), int64(500), int64(500)
		if server.Real() {
			largest, batch = 1, 5000
		}
		for _, rate := range rates {
			for _, costs := range []int64{largest, 100} {
				rng := rand.New(rand.NewPCG(6, 6))
				keys := Keys(redistest.Prefix(t), "n", "")
				now, given := int64(startMicros), int64(0)
				start := now
				for given < permits {
					reply, err := manyTakes.Run(context.Background(), client, keys,
						now, batch, costs, rate.given, 1000, 0, 0, 0, 0, "a", 0, 1e15).Int64Slice()
					require.NoError(t, err)
					for k := range batch {
						given += k%costs + 1
					}
					require.Equal(t, given, reply[1], "%s: number", rate.name)
					exact := new(big.Rat).Mul(rate.interval, big.NewRat(given, 1))
					exact.Add(exact, big.NewRat(start-now, 1))
					within(t, rate.name, exact, reply[0])
					within(t, rate.name, exact, reply[2])
					now += rng.Int64N(1 + reply[0]/2) // never past the end of the line
				}
				require.NoError(t, client.Del(context.Background(), keys...).Err())
			}
		}
	})
}

// within checks a duration in whole micros against the exact one.
func within(t *testing.T, name string, exact *big.Rat, got int64) {
	t.Helper()
	off := new(big.Rat).Sub(big.NewRat(got, 1), exact)
	if off.Abs(off).Cmp(big.NewRat(1, 1)) > 0 {
		t.Fatalf("%s: %d micros where %s are exact", name, got, exact.FloatString(3))
	}
}

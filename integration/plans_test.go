package integration

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/world"
	"github.com/fleetpace/fleetpace/reserve"
)

const plansVariable = "FLEETPACE_INTEGRATION_PLANS"

// plansJob is the job of a process whose customers' plans change while calls wait.
type plansJob struct {
	Redis, Prefix string
	Turns         string // the directory of the ledger
	Begin         int64  // Unix micros: moments count from here
	Lag           int64  // micros: it reads changes so much later; below 0: it reads none
	Customers     int
	Busy          int // the number of customers at which callers wait all the time …
	Callers       int // … and the callers at each of them
	PerSecond     int // calls at random customers
	Seed          uint64
	Changes       []planChange
}

// planChange is a version of a plan: its version is its moment.
type planChange struct {
	At       int64 // micros
	Customer int
	Limit    string
}

// plansReport is what such a process prints.
type plansReport struct {
	Calls  map[string][]called // of busy customers
	Errors []string
	Heap   float64 // MB
}

// called is a call of a busy customer: when it came and when it had its turn, in micros.
type called struct{ Came, Had int64 }

func customer(n int) string { return "customer-" + strconv.Itoa(n) }

// planOf returns the plan that the process has read.
func (j *plansJob) planOf(changes [][]planChange, key string) (reserve.Limit, int64) {
	n, _ := strconv.Atoi(strings.TrimPrefix(key, "customer-"))
	limit, version, now := reserve.PerSecond(20).Burst(2), int64(1), time.Now().UnixMicro()-j.Begin-j.Lag
	for _, c := range changes[n] {
		if j.Lag >= 0 && c.At <= now {
			limit, _ = reserve.ParseLimit(c.Limit)
			version = 1 + c.At
		}
	}
	return limit, version
}

// workPlans calls until it is interrupted.
func workPlans(text string) error {
	var j plansJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := keepTurns(j.Turns, "plans"); err != nil {
		return err
	}
	options, err := redis.ParseURL(j.Redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	changes := make([][]planChange, j.Customers)
	for _, c := range j.Changes {
		changes[c.Customer] = append(changes[c.Customer], c)
	}
	before := megabytes()
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: j.Prefix, Limit: reserve.PerSecond(1), LimitOf: func(key string) (reserve.Limit, int64) {
		return j.planOf(changes, key)
	}})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := plansReport{Calls: map[string][]called{}}
	var mu sync.Mutex
	var calls sync.WaitGroup
	call := func(key string) {
		came := time.Now().UnixMicro() - j.Begin
		err := limiter.For(key).Wait(ctx)
		now := time.Now().UnixMicro() - j.Begin
		mu.Lock()
		defer mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.Errors = append(r.Errors, err.Error())
		} else if n, _ := strconv.Atoi(strings.TrimPrefix(key, "customer-")); err == nil && n < j.Busy {
			r.Calls[key] = append(r.Calls[key], called{came, now})
		}
	}
	time.Sleep(time.Until(time.UnixMicro(j.Begin)))
	for n := range j.Busy {
		for range j.Callers {
			calls.Go(func() {
				for ctx.Err() == nil {
					call(customer(n))
				}
			})
		}
	}
	calls.Go(func() {
		random, ticker := rand.New(rand.NewPCG(j.Seed, 37)), time.NewTicker(time.Second/time.Duration(j.PerSecond))
		defer ticker.Stop()
		for ctx.Err() == nil {
			n := j.Busy + random.IntN(j.Customers-j.Busy)
			calls.Go(func() { call(customer(n)) })
			<-ticker.C
		}
	})
	<-ctx.Done()
	r.Heap = megabytes() - before
	calls.Wait()
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// megabytes is how much of the heap is in use.
func megabytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// Four processes serve customers whose plans change up and down and to other kinds, while 52 calls wait at some of them.
// A strict provider that follows refuses no turn, by Redis's clock. FLEETPACE_LONG=1 plays 10,000 customers for half a
// minute, loses the data meanwhile, and looks what is left two minutes later. It also judges how much is used, how soon
// the plans are known and in which order calls have their turns; without it these figures are in the log.
func TestPlansOfFourProcesses(t *testing.T) {
	long := os.Getenv("FLEETPACE_LONG") != ""
	customers, busy, perSecond, lasts, loses := 300, 3, 100, 4*time.Second, time.Hour
	if long {
		customers, busy, perSecond, lasts, loses = 10_000, 8, 250, 30*time.Second, 20*time.Second
	}
	server, ctx := redistest.Local(t, "--hz", "10"), t.Context()
	client, prefix, turns := server.Client(t), redistest.Prefix(t), t.TempDir()
	begin := time.Now().Add(time.Second)
	kinds := []string{"10/s burst 3", "40/s", "80/s burst 5", "25/s burst 2", "30/minute quota", "9/3s rolling", "20/s warmup 1s"}
	random, changes := rand.New(rand.NewPCG(7, 37)), []planChange{}
	for at := time.Second; at < lasts-time.Second; at += 50 * time.Millisecond {
		changes = append(changes, planChange{at.Microseconds(), busy + random.IntN(customers-busy), kinds[random.IntN(len(kinds))]})
	}
	for n := range busy {
		is := 4 + n%3
		for at := time.Second + time.Duration(random.IntN(500))*time.Millisecond; at < lasts-1500*time.Millisecond; at += time.Duration(2200+random.IntN(1500)) * time.Millisecond {
			if at > loses-1500*time.Millisecond && at < loses+2*time.Second {
				continue // what is in force after the loss is looked at below
			}
			changes = append(changes, planChange{at.Microseconds(), n, kinds[is]})
			is = (is + 1 + random.IntN(len(kinds)-1)) % len(kinds) // another one
		}
	}
	slices.SortFunc(changes, func(a, b planChange) int { return int(a.At - b.At) })
	inForce, listen := map[string][]world.InForce{}, client.PSubscribe(ctx, prefix+"*")
	_, err := listen.Receive(ctx)
	require.NoError(t, err)
	var mu sync.Mutex
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for m := range listen.Channel(redis.WithChannelSize(10_000)) {
			words := strings.SplitN(m.Payload, " ", 4)
			if len(words) < 4 || !strings.Contains(words[1], "limit:") {
				continue
			}
			_, key, _ := strings.Cut(words[3], ":p:")
			n, _ := strconv.Atoi(strings.TrimPrefix(key, "customer-"))
			if micros, err := strconv.ParseInt(words[2], 10, 64); err == nil && n < busy {
				text, err := client.HGet(ctx, words[3], "limit").Result()
				if err != nil {
					continue // the data was lost
				}
				mu.Lock()
				inForce[key] = append(inForce[key], world.InForce{At: time.UnixMicro(micros).Sub(begin), Limit: limitOf(text)})
				mu.Unlock()
			}
		}
	})
	var fleet []*worker
	for i, lag := range []int64{0, 300_000, 900_000, -1} { // the last one knows the first plans only
		fleet = append(fleet, startProcess(t, plansVariable, plansJob{
			Redis: server.URL(), Prefix: prefix, Turns: turns, Begin: begin.UnixMicro(), Lag: lag, Customers: customers, Busy: busy, Callers: 13,
			PerSecond: perSecond, Seed: uint64(i), Changes: changes,
		}))
	}
	time.Sleep(time.Until(begin.Add(min(loses, lasts))))
	keys, err := client.DBSize(ctx).Result()
	require.NoError(t, err)
	lost := time.Since(begin)
	if long {
		require.NoError(t, client.FlushDB(ctx).Err())
		time.Sleep(time.Until(begin.Add(lost + 2*time.Second)))
		for n := range busy {
			newest := ""
			for _, c := range changes {
				if c.Customer == n && c.At < lost.Microseconds() {
					newest = c.Limit
				}
			}
			text, err := client.HGet(ctx, prefix+":{api}:p:"+customer(n), "limit").Result()
			if errors.Is(err, redis.Nil) && (strings.Contains(newest, "quota") || strings.Contains(newest, "rolling")) {
				continue // nobody has asked, as the window is used up
			}
			require.NoError(t, err, newest)
			require.Equal(t, newest, limitOf(text).String(), "two seconds after the loss of data")
		}
	}
	time.Sleep(time.Until(begin.Add(lasts)))
	allCall(t, turns, len(fleet))
	all, calls, heap := map[string][]called{}, 0, 0.
	for _, w := range fleet {
		w.signal(os.Interrupt)
	}
	for _, w := range fleet {
		var r plansReport
		require.NoError(t, json.NewDecoder(w.out).Decode(&r))
		w.once.Do(func() { require.NoError(t, w.cmd.Wait()) })
		require.Empty(t, r.Errors)
		heap = max(heap, r.Heap)
		for key, own := range r.Calls {
			all[key] = append(all[key], own...)
		}
	}
	require.NoError(t, listen.Close())
	hearing.Wait()
	slowest, missed := time.Duration(0), 0
	for _, c := range changes {
		if c.Customer >= busy {
			continue
		}
		at := time.Duration(c.At) * time.Microsecond
		i := slices.IndexFunc(inForce[customer(c.Customer)], func(f world.InForce) bool { return f.At >= at && f.Limit.String() == c.Limit })
		if i < 0 {
			missed++
			continue
		}
		slowest = max(slowest, inForce[customer(c.Customer)][i].At-at)
	}
	moments, active := map[string][]time.Duration{}, 0.
	for _, turn := range turnsIn(t, turns) {
		key := strings.TrimPrefix(turn.Limit, "api/")
		if calls++; moments[key] == nil && turn.Given.Sub(begin) < lost {
			active++
		}
		moments[key] = append(moments[key], turn.Moment().Sub(begin))
	}
	worst, again, overtook, inOrder := 1., time.Duration(0), 0, 0
	for n := range busy {
		key := customer(n)
		limits := append([]world.InForce{{Limit: reserve.PerSecond(20).Burst(2)}}, inForce[key]...)
		after := slices.IndexFunc(limits, func(f world.InForce) bool { return f.At > lost })
		if after < 0 {
			after = len(limits)
		}
		refused, part := world.Judge(begin, limits[:after], during(moments[key], 0, lost), 700*time.Millisecond, lost)
		require.Empty(t, refused, "%s: %v", key, limits)
		t.Logf("%s: %.3f used of %v", key, part, limits)
		worst = min(worst, part)
		if next := during(moments[key], lost, lasts); long && len(next) > 0 && limits[after-1].Limit.Rate() >= 10 {
			again = max(again, next[0]-lost)
		}
		for k, f := range limits[after:] { // which permits of a window are left after the loss, nobody knows
			if f.Limit.Kind() == reserve.KindPaced {
				limits = limits[after+k:]
				limits[0].At += ahead
				refused, _ = world.Judge(begin, limits, during(moments[key], limits[0].At, lasts), lasts, lasts)
				require.Empty(t, refused, "%s: %v", key, limits)
				break
			}
		}
		more, of := overtakes(all[key])
		overtook, inOrder = overtook+more, inOrder+of
	}
	t.Logf("%d customers, %.0f of them active, %d calls, %.1f MB of heap in each process, %d keys (%.3f for each of those), %d changes of plans, known within %v where calls wait, %d of them not; "+
		"none refused, at least %.3f used, %d of %d calls overtook the next; %v after the loss of data calls go on",
		customers, active, calls, heap, keys, float64(keys)/active, len(changes), slowest, missed, worst, overtook, inOrder, again)
	require.Less(t, heap, 15.)
	if !long {
		return
	}
	require.LessOrEqual(t, float64(keys), 1.1*active+10)
	require.Zero(t, missed)
	require.LessOrEqual(t, slowest, time.Second)
	require.LessOrEqual(t, overtook, inOrder/20)
	require.GreaterOrEqual(t, worst, 0.97)
	require.LessOrEqual(t, again, 2*time.Second)
	time.Sleep(2 * time.Minute)
	keys, err = client.DBSize(ctx).Result()
	require.NoError(t, err)
	t.Logf("two minutes later: %d keys", keys)
	require.Less(t, keys, int64(10))
}

// limitOf reads the limit of a state in Redis.
func limitOf(text string) reserve.Limit {
	words := strings.Fields(text)
	a, _ := strconv.ParseFloat(words[len(words)-2], 64)
	b, _ := strconv.ParseFloat(words[len(words)-1], 64)
	switch words[0] {
	case "q":
		return reserve.Quota(int(a), reserve.CalendarMinute)
	case "r":
		return reserve.Rolling(int(a), time.Duration(b)*time.Microsecond)
	case "w":
		return reserve.PerSecond(1e6 / a).WarmUp(time.Duration(b) * time.Microsecond)
	}
	return reserve.PerSecond(1e6 / a).Burst(int(b))
}

// during returns the moments of a stretch of time: none if its end is before its beginning, as after a sleep that lasted
// longer than the test.
func during(moments []time.Duration, from, until time.Duration) []time.Duration {
	slices.Sort(moments)
	first, _ := slices.BinarySearch(moments, from)
	behind, _ := slices.BinarySearch(moments, until)
	return moments[first:max(first, behind)]
}

// overtakes returns how many calls had their turns directly before a call that came earlier. Turns at the same moment
// have no order.
func overtakes(calls []called) (n, of int) {
	slices.SortFunc(calls, func(a, b called) int { return int(a.Had - b.Had) })
	for i := 1; i < len(calls); i++ {
		if calls[i-1].Came > calls[i].Came && calls[i].Had-calls[i-1].Had > 5_000 {
			n++
		}
	}
	return n, len(calls)
}

// A test that wakes late measures from a moment after its end, with a turn in between.
func TestDuringAStretchThatIsOver(t *testing.T) {
	moments := []time.Duration{3, 1, 2}
	require.Empty(t, during(moments, 3, 2))
	require.Empty(t, during(moments, 4, 2))
	require.Equal(t, []time.Duration{2}, during(moments, 2, 3))
}

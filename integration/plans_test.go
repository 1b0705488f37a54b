package integration

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/fleetpace/fleetpace/reserve"
)

const plansVariable = "FLEETPACE_INTEGRATION_PLANS"

// plansJob is the job of a process whose customers' plans change while calls wait.
type plansJob struct {
	Redis, Prefix string
	Begin         int64 // Unix micros: moments count from here
	Lag           int64 // micros: it reads changes so much later; below 0: it reads none
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
	Calls  map[string][]int64 // of busy customers: when its calls had their turns, in micros
	Others int
	Used   []int // the customers that other calls have used
	Errors []string
	Heap   float64 // MB
}

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
	r, used := plansReport{Calls: map[string][]int64{}}, map[int]bool{}
	var mu sync.Mutex
	var calls sync.WaitGroup
	call := func(key string) {
		err := limiter.For(key).Wait(ctx)
		now := time.Now().UnixMicro() - j.Begin
		mu.Lock()
		defer mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.Errors = append(r.Errors, err.Error())
		} else if n, _ := strconv.Atoi(strings.TrimPrefix(key, "customer-")); err == nil && n < j.Busy {
			r.Calls[key] = append(r.Calls[key], now)
		} else if err == nil {
			r.Others, used[n] = r.Others+1, true
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
	for n := range used {
		r.Used = append(r.Used, n)
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

// Four processes serve customers whose plans change up and down, and for most customers to other kinds and back, while
// 52 calls wait at some of them. The newest plans are in force within about a second, and Redis keeps one key for each customer in use.
// FLEETPACE_LONG=1 plays 10,000 customers for half a minute, loses the data meanwhile, and looks what is left two
// minutes later. It also judges the calls; without it the figures are in the log.
func TestPlansOfFourProcesses(t *testing.T) {
	long := os.Getenv("FLEETPACE_LONG") != ""
	customers, busy, perSecond, lasts := 300, 3, 100, 4*time.Second
	if long {
		customers, busy, perSecond, lasts = 10_000, 8, 250, 30*time.Second
	}
	server, ctx := redistest.Local(t, "--hz", "10"), t.Context()
	client, prefix := server.Client(t), redistest.Prefix(t)
	begin := time.Now().Add(time.Second)
	limits := []string{"10/s burst 3", "40/s", "80/s burst 5", "25/s burst 2"}
	kinds := slices.Concat(limits, []string{"30/minute quota", "9/3s rolling", "20/s warmup 1s"})
	random, changes := rand.New(rand.NewPCG(7, 37)), []planChange{}
	for at := time.Second; at < lasts-time.Second; at += 50 * time.Millisecond {
		changes = append(changes, planChange{at.Microseconds(), busy + random.IntN(customers-busy), kinds[random.IntN(len(kinds))]})
	}
	for n := range busy {
		for at := time.Second + time.Duration(random.IntN(500))*time.Millisecond; at < lasts-1500*time.Millisecond; at += time.Duration(2200+random.IntN(1500)) * time.Millisecond {
			changes = append(changes, planChange{at.Microseconds(), n, limits[random.IntN(len(limits))]})
		}
	}
	slices.SortFunc(changes, func(a, b planChange) int { return int(a.At - b.At) })
	inForce, listen := map[string][]followed{}, client.PSubscribe(ctx, prefix+"*")
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
				plain, _ := client.HGet(ctx, words[3], "plain").Result()
				mu.Lock()
				inForce[key] = append(inForce[key], followed{micros - begin.UnixMicro(), plain})
				mu.Unlock()
			}
		}
	})
	var fleet []*worker
	for i, lag := range []int64{0, 300_000, 900_000, -1} { // the last one knows the first plans only
		fleet = append(fleet, startProcess(t, plansVariable, plansJob{
			Redis: server.URL(), Prefix: prefix, Begin: begin.UnixMicro(), Lag: lag, Customers: customers, Busy: busy, Callers: 13,
			PerSecond: perSecond, Seed: uint64(i), Changes: changes,
		}))
	}
	lost := int64(-1)
	if long {
		time.Sleep(time.Until(begin.Add(lasts * 2 / 3)))
		lost = time.Since(begin).Microseconds()
		require.NoError(t, client.FlushDB(ctx).Err())
	}
	time.Sleep(time.Until(begin.Add(lasts)))
	keys, err := client.DBSize(ctx).Result()
	require.NoError(t, err)
	all, used, calls, heap := map[string][]int64{}, map[int]bool{}, 0, 0.
	for _, w := range fleet {
		w.signal(os.Interrupt)
	}
	for _, w := range fleet {
		var r plansReport
		require.NoError(t, json.NewDecoder(w.out).Decode(&r))
		w.once.Do(func() { require.NoError(t, w.cmd.Wait()) })
		require.Empty(t, r.Errors)
		heap, calls = max(heap, r.Heap), calls+r.Others
		for _, n := range r.Used {
			used[n] = true
		}
		for key, moments := range r.Calls {
			all[key] = append(all[key], moments...)
			calls += len(moments)
		}
	}
	require.NoError(t, listen.Close())
	hearing.Wait()
	slowest, missed, was := time.Duration(0), 0, map[int]string{}
	for _, c := range changes {
		if c.Customer >= busy || was[c.Customer] == c.Limit {
			continue
		}
		was[c.Customer] = c.Limit
		limit, err := reserve.ParseLimit(c.Limit)
		require.NoError(t, err)
		i := slices.IndexFunc(inForce[customer(c.Customer)], func(f followed) bool { return f.at >= c.At && f.is(limit) })
		if i < 0 {
			missed++
			continue
		}
		slowest = max(slowest, time.Duration(inForce[customer(c.Customer)][i].at-c.At)*time.Microsecond)
	}
	figures := fmt.Sprintf("%d customers, %d of them used, %d calls, %.1f MB of heap in each process, %d keys (%.3f per active customer), %d changes of plans, known within %v where calls wait, %d of them not",
		customers, len(used)+busy, calls, heap, keys, float64(keys)/float64(len(used)+busy), len(changes), slowest, missed)
	refused, worst, again := 0, 1., time.Duration(0)
	for key, moments := range all {
		slices.Sort(moments)
		no, part := judgePlans(inForce[key], moments, lasts.Microseconds(), lost)
		refused, worst = refused+no, min(worst, part)
		if i, found := slices.BinarySearch(moments, lost); long && (found || i < len(moments)) {
			again = max(again, time.Duration(moments[i]-lost)*time.Microsecond)
		}
	}
	t.Logf("%s; where calls wait: %d refused, at least %.3f used; %v after the loss of data calls go on", figures, refused, worst, again)
	require.Less(t, heap, 15.)
	if !long {
		return
	}
	require.LessOrEqual(t, float64(keys), 1.1*float64(len(used)+busy)+10)
	require.Zero(t, missed)
	require.LessOrEqual(t, slowest, 1500*time.Millisecond)
	require.Zero(t, refused)
	require.GreaterOrEqual(t, worst, 0.97)
	require.LessOrEqual(t, again, 2*time.Second)
	time.Sleep(2 * time.Minute)
	keys, err = client.DBSize(ctx).Result()
	require.NoError(t, err)
	t.Logf("two minutes later: %d keys", keys)
	require.Less(t, keys, int64(10))
}

// followed is a limit that Redis has put in force.
type followed struct {
	at    int64 // micros
	plain string
}

// parts returns the interval in micros, and the burst.
func (f *followed) parts() (a, b float64) {
	words := strings.Fields(f.plain)
	if len(words) < 5 {
		return 1, 1
	}
	a, _ = strconv.ParseFloat(words[3], 64)
	b, _ = strconv.ParseFloat(words[4], 64)
	return a, b
}

func (f *followed) is(l reserve.Limit) bool {
	a, b := f.parts()
	return int(1e6/a+0.5) == int(l.Rate()+0.5) && int(b) == l.MaxBurst()
}

// judgePlans returns how many calls exceed what the limits in force allow together, and which part of it they use. The
// limits are about a rate, so a stretch of time between two changes is judged as a whole, and a change counts half a
// second later.
func judgePlans(inForce []followed, moments []int64, until, lost int64) (refused int, used float64) {
	const horizon = 550_000
	limits := append([]followed{{0, "0 - p 50000 2"}}, inForce...)
	made, possible := 0., 0.
	for i, f := range limits {
		from, to := f.at+horizon, until
		if i == 0 {
			from = 700_000
		}
		if i+1 < len(limits) {
			to = limits[i+1].at
		}
		if from >= to || lost >= from-horizon && lost < to {
			continue
		}
		a, burst := f.parts()
		perSecond, n := 1e6/a, 0.
		for _, at := range moments {
			if at >= from && at < to {
				n++
			}
		}
		seconds := float64(to-from) / 1e6
		refused += max(0, int(n-perSecond*(seconds+0.1)-burst))
		made, possible = made+min(n, perSecond*seconds), possible+perSecond*seconds
	}
	if possible == 0 {
		return refused, 1
	}
	return refused, made / possible
}

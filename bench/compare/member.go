package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/reserve"
)

// memberRole makes the program one process of case accuracy.
const memberRole = "-member"

// setup is what a member is told.
type setup struct {
	Redis     string // URL
	Name      string // of the limit
	PerSecond float64
	Burst     int
	Callers   int
	BareEvery time.Duration
	Start     time.Time
	For       time.Duration
}

// tale is what a member tells in the end, one line of JSON on its stdout. Moments
// are those of the machine's clock, which all processes share.
type tale struct {
	Calls []int64 // moments of all calls, in Unix nanoseconds
	Late  []int64 // nanoseconds after the turn, of those that know their turn
	Bare  []int64 // nanoseconds after the moment, of bare sleeps
}

func memberMain() int {
	logging.Disable() // as in the parent
	var s setup
	if err := child.Told(&s); err != nil {
		fmt.Fprintln(os.Stderr, "compare: a member got no setup:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		child.UntilStopped()
		os.Exit(1) // the parent has gone, or wants no tale
	}()
	told, err := s.live(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return 1
	}
	return 0
}

// live calls from start to end, and sleeps beside it.
func (s setup) live(ctx context.Context) (*tale, error) {
	options, err := redis.ParseURL(s.Redis)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	limiter, err := reserve.New(client, reserve.Config{Name: s.Name, Limit: reserve.PerSecond(s.PerSecond).Burst(s.Burst)})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	time.Sleep(time.Until(s.Start))
	ctx, cancel := context.WithDeadline(ctx, s.Start.Add(s.For))
	defer cancel()

	told := &tale{}
	var (
		mu     sync.Mutex
		group  sync.WaitGroup
		failed error
	)
	note := func(call, late int64, err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if !ended(err) {
				failed = errors.Join(failed, err)
			}
			return false
		}
		told.Calls = append(told.Calls, call)
		if late >= 0 {
			told.Late = append(told.Late, late)
		}
		return ctx.Err() == nil
	}
	for i := range s.Callers {
		call := waits
		if i%2 == 1 {
			call = reserves
		}
		group.Go(func() {
			for note(call(ctx, limiter)) {
			}
		})
	}
	group.Go(func() { told.Bare = bareSleeps(ctx, s.BareEvery) })
	group.Wait()
	return told, failed
}

// ended: the time is over, which a limiter also says as ErrWouldMissDeadline.
func ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, reserve.ErrWouldMissDeadline)
}

// waits is a call of those that Wait; it does not know its turn.
func waits(ctx context.Context, l *reserve.Limiter) (call, late int64, err error) {
	err = l.Wait(ctx)
	return time.Now().UnixNano(), -1, err
}

// reserves is a call of those that know their turn: Reserve and then Wait for it.
func reserves(ctx context.Context, l *reserve.Limiter) (call, late int64, err error) {
	r, err := l.Reserve(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := r.Wait(ctx); err != nil {
		return 0, 0, err
	}
	now := time.Now()
	return now.UnixNano(), max(0, int64(now.Sub(r.Due()))), nil
}

// bareSleeps sleeps until a random moment of each interval.
func bareSleeps(ctx context.Context, every time.Duration) []int64 {
	var late []int64
	for slot := time.Now(); ctx.Err() == nil; slot = slot.Add(every) {
		due := slot.Add(time.Duration(rand.Int64N(int64(every))))
		if d := time.Until(due); d > 0 {
			time.Sleep(d)
			late = append(late, max(0, int64(time.Since(due))))
		}
	}
	return late
}

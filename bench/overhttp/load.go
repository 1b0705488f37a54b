package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func clientOf(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
}

// ask waits for one turn.
func ask(ctx context.Context, client *http.Client, address, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/wait", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(w.Body)
	if err == nil && w.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", w.StatusCode, text)
	}
	return err
}

// throughput is requests per second, of 64 callers.
func throughput(ctx context.Context, role, address string) (float64, error) {
	s, err := start(role, address)
	if err != nil {
		return 0, err
	}
	defer s.end()
	body := `{"limits":[{"name":"plenty"}]}`
	if strings.Contains(role, "lease") {
		body = `{"limits":[{"name":"leased"}]}`
	}
	var count atomic.Int64
	var failed error
	var mu sync.Mutex
	var callers sync.WaitGroup
	begin := time.Now().Add(time.Second) // what is before warms up
	end := begin.Add(3 * time.Second)
	for range 64 {
		callers.Go(func() {
			caller, err := dial(ctx, s.Address, body)
			if err == nil {
				defer func() { _ = caller.conn.Close() }()
			}
			for err == nil && time.Now().Before(end) {
				if err = caller.ask(); err == nil && time.Now().After(begin) {
					count.Add(1)
				}
			}
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return float64(count.Load()) / end.Sub(begin).Seconds(), failed
}

// waits measures what callers cost that wait all the time.
func waits(ctx context.Context, address string, callers int, length time.Duration) error {
	s, err := start("fleetpace, observed", address)
	if err != nil {
		return err
	}
	defer s.end()
	rdb := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = rdb.Close() }()
	client := clientOf(callers)
	body := `{"limits":[{"name":"waits"}]}`
	if err := ask(ctx, client, s.Address, body); err != nil {
		return err
	}
	before, err := resident(s.PID)
	if err != nil {
		return err
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	var turns atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for playing.Err() == nil {
				if ask(playing, client, s.Address, body) == nil {
					turns.Add(1)
				}
			}
		})
	}
	time.Sleep(3 * time.Second)
	scripts, had := scriptsOf(ctx, rdb), turns.Load()
	if _, err := lateOf(client, s.Address); err != nil {
		return err
	}
	began := time.Now()
	var bare []time.Duration
	for time.Since(began) < length {
		slept := time.Now()
		time.Sleep(5 * time.Millisecond)
		bare = append(bare, time.Since(slept)-5*time.Millisecond)
	}
	took := time.Since(began)
	count, asked := float64(turns.Load()-had), float64(scriptsOf(ctx, rdb)-scripts)
	after, err := resident(s.PID)
	late, failed := lateOf(client, s.Address)
	stop()
	all.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	fmt.Printf("%d callers wait at one server, limit 2000/s, for %v\n", callers, took.Round(time.Second))
	fmt.Printf("  turns per second         %8.0f (used %.3f)\n", count/took.Seconds(), count/took.Seconds()/2000)
	fmt.Printf("  script calls per turn    %8.4f\n", asked/count)
	fmt.Printf("  memory per caller        %8.1f KiB (%d MiB before, %d MiB now)\n", float64(after-before)/float64(callers), before>>10, after>>10)
	fmt.Printf("  turns are late           %8.1f ms (p99, as the server uses them)\n", late)
	fmt.Printf("  a bare sleeper is late   %8.1f ms (p99)\n", percentile(bare))
	return nil
}

// lateOf asks a server how late its turns were used.
func lateOf(client *http.Client, address string) (late float64, err error) {
	w, err := client.Get("http://" + address + "/late")
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Body.Close() }()
	return late, json.NewDecoder(w.Body).Decode(&late)
}

// scriptsOf is how many calls of scripts a Redis has had.
func scriptsOf(ctx context.Context, rdb *redis.Client) (calls int64) {
	for line := range strings.Lines(rdb.Info(ctx, "commandstats").Val()) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			_, _ = fmt.Sscan(rest[:strings.IndexByte(rest, ',')], &calls)
		}
	}
	return calls
}

// resident is the memory of a process, in KiB.
func resident(pid int) (kib int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}

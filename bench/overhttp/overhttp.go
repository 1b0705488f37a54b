// Package overhttp measures turns over HTTP: requests per second where permits are available, and
// what callers cost that wait.
package overhttp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
	"github.com/fleetpace/fleetpace/internal/progress"
)

// Usage explains the measurement and introduces its flags.
const Usage = `Requests per second of 64 callers where permits are available, of servers that are processes of
their own, in turns, the median of -rounds. Then -callers that wait all the time at a limit of 2,000/s.
Callers cost as little as they can, and share the machine with the servers: compare the ratios.

Flags:
`

type options struct {
	rounds, callers int
	length          time.Duration
	busy            bool
}

// Run measures, and prints.
func Run(ctx context.Context, fs *flag.FlagSet, args []string, stdout io.Writer, stderr *os.File) error {
	var o options
	fs.IntVar(&o.rounds, "rounds", 5, "rounds")
	fs.IntVar(&o.callers, "callers", 2000, "callers that wait; 0: this is not measured")
	fs.DurationVar(&o.length, "length", 2*time.Second, "of each measurement, after a second that warms up")
	fs.BoolVar(&o.busy, "busy", false, "beside a process per processor that never rests")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.callers < 0 || o.length <= 0 || fs.NArg() > 0 {
		return fmt.Errorf("want at least one of -rounds, -callers of 0 or more, a -length above 0, and flags only, got %d, %d, %v, %q", o.rounds, o.callers, o.length, fs.Args())
	}
	server, err := redisserver.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	stop, err := child.Busy(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	rates := map[string][]float64{}
	names := []string{bareServer, peerServer, fleetpace, prefetched}
	bar := progress.New(stderr, "http", o.rounds*len(names))
	for round := range o.rounds {
		for i := range names {
			name := names[(round+i)%len(names)]
			bar.Describe(name)
			rate, err := throughput(ctx, name, server.Address, o.length)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				bar.Close()
				return fmt.Errorf("%s: %w", name, err)
			}
			rates[name] = append(rates[name], rate)
			bar.Set(round*len(names) + i + 1)
		}
	}
	bar.Close()
	median := func(name string) float64 {
		slices.Sort(rates[name])
		return rates[name][len(rates[name])/2]
	}
	fmt.Fprintln(stdout, time.Now().Format(time.DateOnly))
	for _, name := range names {
		fmt.Fprintf(stdout, "%-24s %8.0f requests/s, %.2f of redis_rate\n", name, median(name), median(name)/median(peerServer))
	}
	if o.callers == 0 {
		return nil
	}
	return waits(ctx, server, o, stdout)
}

// server is a process that serves.
type server struct {
	*child.Process
	told
}

func start(name, redis string) (*server, error) {
	p, err := child.Start(ServerRole, setup{name, redis})
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	return s, p.Hear(&s.told)
}

func (s *server) end() {
	s.Stop()
	_ = s.Wait()
}

// throughput is requests per second of 64 callers.
func throughput(ctx context.Context, name, redis string, length time.Duration) (float64, error) {
	s, err := start(name, redis)
	if err != nil {
		return 0, err
	}
	defer s.end()
	body := `{"limits":[{"name":"plenty"}]}`
	if name == prefetched {
		body = `{"limits":[{"name":"prefetched"}]}`
	}
	var count atomic.Int64
	var callers errgroup.Group
	begin := time.Now().Add(time.Second)
	end := begin.Add(length)
	for range 64 {
		callers.Go(func() error {
			c, err := dial(ctx, s.Address, body)
			if err != nil {
				return err
			}
			defer func() { _ = c.conn.Close() }()
			for err == nil && time.Now().Before(end) {
				if err = c.ask(); err == nil && time.Now().After(begin) {
					count.Add(1)
				}
			}
			return err
		})
	}
	if err := callers.Wait(); err != nil {
		return 0, err
	}
	return float64(count.Load()) / length.Seconds(), nil
}

// caller costs as little as it can: it sends the same bytes over one connection, and reads no more
// of an answer than its status and its length.
type caller struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

func dial(ctx context.Context, address, body string) (*caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	request := fmt.Sprintf("POST /v1/wait HTTP/1.1\r\nHost: fleetpace\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return &caller{conn, bufio.NewReader(conn), []byte(request)}, nil
}

func (c *caller) ask() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		text := strings.TrimRight(string(line), "\r\n")
		switch rest, ok := strings.CutPrefix(text, "Content-Length: "); {
		case first && !strings.HasPrefix(text, "HTTP/1.1 200"):
			return fmt.Errorf("the answer is %q", text)
		case ok:
			if length, err = strconv.Atoi(rest); err != nil {
				return err
			}
		case text == "":
			_, err = c.reader.Discard(length)
			return err
		}
	}
}

// waits measures what callers cost that wait all the time.
func waits(ctx context.Context, on *redisserver.Server, o options, stdout io.Writer) error {
	s, err := start(observed, on.Address)
	if err != nil {
		return err
	}
	defer s.end()
	before, err := resident(s.PID)
	if err != nil {
		return err
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	var turns atomic.Int64
	var all sync.WaitGroup
	for range o.callers {
		all.Go(func() {
			c, err := dial(playing, s.Address, `{"limits":[{"name":"waits"}]}`)
			if err != nil {
				return
			}
			context.AfterFunc(playing, func() { _ = c.conn.Close() })
			for c.ask() == nil {
				turns.Add(1)
			}
		})
	}
	time.Sleep(3 * time.Second)
	scripts, failed := on.Work(ctx)
	had := turns.Load()
	_, err = s.late()
	began := time.Now()
	for time.Since(began) < 5*o.length && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	count := float64(turns.Load() - had)
	asked, failedThen := on.Work(ctx)
	after, lost := resident(s.PID)
	late, mute := s.late()
	stop()
	all.Wait()
	if err = errors.Join(err, failed, failedThen, lost, mute, ctx.Err()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d callers that wait at a limit of 2,000/s: %.3f of it used, %.3f script calls per turn, %.1f KiB per caller, turns late by %.1f ms (p99)\n",
		o.callers, count/took/2000, asked.Less(scripts).Scripts/count, float64(after-before)/float64(o.callers), late)
	return nil
}

// late is how late the turns of the server were used since this was asked last.
func (s *server) late() (millis float64, err error) {
	s.Tell("late")
	return millis, s.Hear(&millis)
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

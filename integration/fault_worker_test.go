package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// faultJob is the job of a worker process of the fault tests.
type faultJob struct {
	Redis  faultRedis
	Prefix string
	Limit  string
	Policy string        // the outage policy
	API    string        // the URL that is called once per turn
	Worker int           // its number, which it sends to the API
	Calls  int           // goroutines that call all the time
	Pause  time.Duration // of a goroutine after each call
	Turns  string        // the ledger's directory
}

// faultRedis says how a worker connects to Redis, in one of three ways. The client has go-redis's
// defaults, except for what the URL sets.
type faultRedis struct {
	URL       string
	Sentinels []string // addresses; the master is called "api"
	Cluster   []string // addresses of nodes
}

// faultReport is what a worker process prints at its end.
type faultReport struct {
	Calls  int            // calls with a response
	Lost   int            // turns that ended in an error, and calls without a response
	Failed int            // calls that failed because the policy is "fail"
	Errors map[string]int // how often each was seen
	Logs   map[string]int // how often the limiter logged each message
}

const faultVariable = "FLEETPACE_INTEGRATION_FAULT"

// afterError is how long a caller waits after an error.
const afterError = 50 * time.Millisecond

// workFault calls the API, turn after turn, until it is signalled or the test is gone.
func workFault(text string) error {
	var j faultJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := keepTurns(j.Turns, "worker-"+strconv.Itoa(j.Worker)); err != nil {
		return err
	}
	redis.SetLogger(discard{}) // it writes a line for each broken connection
	client, err := j.Redis.client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	r := &faultRecord{faultReport: faultReport{Errors: map[string]int{}, Logs: map[string]int{}}}
	limiter, err := j.limiter(client, slog.New(logCounter{r}))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go obey(client, j.Prefix)

	var callers sync.WaitGroup
	for i := range j.Calls {
		callers.Go(func() { j.callUntil(ctx, limiter, i, r) })
	}
	callers.Wait()
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r.faultReport)
}

func (f faultRedis) client() (redis.UniversalClient, error) {
	switch {
	case f.Sentinels != nil:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "api", SentinelAddrs: f.Sentinels}), nil
	case f.Cluster != nil:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: f.Cluster}), nil
	}
	options, err := redis.ParseURL(f.URL)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func (j faultJob) limiter(client redis.UniversalClient, logger *slog.Logger) (*reserve.Limiter, error) {
	limit, err := reserve.ParseLimit(j.Limit)
	if err != nil {
		return nil, err
	}
	config := reserve.Config{Name: "api", Prefix: j.Prefix, Limit: limit, Logger: logger}
	if err := setPolicy(&config, j.Policy); err != nil {
		return nil, err
	}
	return reserve.New(client, config)
}

// callUntil is one goroutine that waits and calls until the context ends.
func (j faultJob) callUntil(ctx context.Context, limiter *reserve.Limiter, caller int, r *faultRecord) {
	query := url.Values{"worker": {strconv.Itoa(j.Worker)}, "caller": {strconv.Itoa(caller)}}
	address := j.API + "?" + query.Encode()
	for ctx.Err() == nil {
		pause := j.Pause
		err := limiter.Wait(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = reach(address)
			r.called(err)
		} else {
			r.waited(err, j.Policy == "fail" && errors.Is(err, reserve.ErrUnavailable))
		}
		if err != nil {
			pause = max(pause, afterError)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// reach makes a call, whatever the response is.
func reach(address string) error {
	response, err := api.Get(address)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// obey reads orders from the test: each is to hold all connections. When they end, the test's
// process has ended, and this one must end, too.
func obey(client redis.UniversalClient, prefix string) {
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if single, ok := client.(*redis.Client); ok {
			occupy(single, prefix)
		}
	}
	os.Exit(1)
}

// occupy holds all connections of a client's pool, each until something is pushed to its key.
func occupy(client *redis.Client, prefix string) {
	for i := range client.Options().PoolSize {
		go func() {
			for client.BLPop(context.Background(), 0, heldKey(prefix, i)).Err() != nil { // no connection was free
				time.Sleep(time.Millisecond)
			}
		}()
	}
}

func heldKey(prefix string, i int) string { return prefix + ":nothing:" + strconv.Itoa(i) }

type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}

// faultRecord is a report that several goroutines write.
type faultRecord struct {
	sync.Mutex
	faultReport
}

func (r *faultRecord) called(err error) {
	r.Lock()
	defer r.Unlock()
	if err == nil {
		r.Calls++
		return
	}
	r.Lost++
	r.Errors[err.Error()]++
}

func (r *faultRecord) waited(err error, expected bool) {
	r.Lock()
	defer r.Unlock()
	if expected {
		r.Failed++
	} else {
		r.Lost++
	}
	r.Errors[err.Error()]++
}

// logCounter counts what the limiter logs, by message.
type logCounter struct{ record *faultRecord }

func (c logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (c logCounter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c logCounter) WithGroup(string) slog.Handler            { return c }

func (c logCounter) Handle(_ context.Context, record slog.Record) error {
	c.record.Lock()
	defer c.record.Unlock()
	c.record.Logs[record.Message]++
	return nil
}

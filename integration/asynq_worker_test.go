package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	paced "github.com/fleetpace/fleetpace/worker"
)

// asynqJob is the job of a process of an asynq fleet.
type asynqJob struct {
	Redis       []string // addresses; several are a Cluster's
	Queues      []string
	Prefix      string
	Limit       string
	API         string // URL that each task calls once
	Concurrency int
	WaitingRoom int
	RetryDelay  time.Duration // for tasks that failed
	Existing    bool          // asynq uses the limiter's own client
	Pause       bool          // pause the limit if the API asks for it
	Process     string        // its name, which it sends to the API
	Turns       string        // the ledger's directory
}

func (j asynqJob) limiter(client redis.UniversalClient) (*reserve.Limiter, error) {
	limit, err := reserve.ParseLimit(j.Limit)
	if err != nil {
		return nil, err
	}
	return reserve.New(client, reserve.Config{Name: "api", Prefix: j.Prefix, Limit: limit})
}

const asynqVariable = "FLEETPACE_INTEGRATION_ASYNQ"

// workAsynq runs an asynq server until it is signalled.
func workAsynq(text string) error {
	var j asynqJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := keepTurns(j.Turns, "asynq"); err != nil {
		return err
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: j.Redis})
	defer func() { _ = client.Close() }()
	limiter, err := j.limiter(client)
	if err != nil {
		return err
	}
	w, err := paced.New(limiter, paced.Config{WaitingRoom: j.WaitingRoom})
	if err != nil {
		return err
	}
	config := asynq.Config{
		Concurrency: j.Concurrency, Queues: map[string]int{}, LogLevel: asynq.ErrorLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return j.RetryDelay },
	}
	for _, queue := range j.Queues {
		config.Queues[queue] = 1
	}
	if err := w.Apply(&config); err != nil {
		return err
	}
	var server *asynq.Server
	if j.Existing {
		server = asynq.NewServerFromRedisClient(client, config)
	} else {
		server = asynq.NewServer(asynqRedis(j.Redis), config)
	}
	return w.Run(context.Background(), server, asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(ctx)
		query := url.Values{"task": {string(task.Payload())}, "retried": {strconv.Itoa(retried)}, "process": {j.Process}}
		if j.Pause {
			return callAndPause(ctx, limiter, j.API, query)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.API+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		response, err := api.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the API answers %d", response.StatusCode)
		}
		return nil
	}))
}

func asynqRedis(addresses []string) asynq.RedisConnOpt {
	if len(addresses) > 1 {
		return asynq.RedisClusterClientOpt{Addrs: addresses}
	}
	return asynq.RedisClientOpt{Addr: addresses[0]}
}

// end signals a process to end and returns how long it took.
func (w *worker) end(s os.Signal) time.Duration {
	w.t.Helper()
	start := time.Now()
	w.signal(s)
	w.once.Do(func() { require.NoError(w.t, w.cmd.Wait()) })
	return time.Since(start)
}

func startAsynq(t testing.TB, j asynqJob) *worker {
	t.Helper()
	return startProcess(t, asynqVariable, j)
}

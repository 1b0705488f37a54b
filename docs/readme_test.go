package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/worker"
)

func lookUp(_ context.Context, address string) { fmt.Println("looks up", address) }

func Example_readmeWait() {
	if err := lookUpAll(context.Background(), client, []string{"Oslo", "Lima", "Pune"}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// looks up Oslo
	// looks up Lima
	// looks up Pune
}

func serveTasks(ctx context.Context, connection asynq.RedisConnOpt, limiter *reserve.Limiter, mux *asynq.ServeMux) error {
	defer limiter.Close() // after the last handler
	paced, err := worker.New(limiter, worker.Config{})
	if err != nil {
		return err
	}
	config := asynq.Config{Concurrency: 25}
	if err := paced.Apply(&config); err != nil {
		return err
	}
	server := asynq.NewServer(connection, config)
	return paced.Run(ctx, server, mux) // in place of server.Run(mux)
}

func Example_readmeAsynq() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "readme-asynq", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("geocode", func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("looks up %s\n", task.Payload())
		stop() // a worker runs until SIGTERM
		return nil
	})
	connection := asynq.RedisClientOpt{Addr: client.Options().Addr}
	enqueuer := asynq.NewClient(connection)
	defer enqueuer.Close()
	if _, err := enqueuer.Enqueue(asynq.NewTask("geocode", []byte("Oslo"))); err != nil {
		fmt.Println(err)
	}
	if err := serveTasks(ctx, connection, limiter, mux); err != nil {
		fmt.Println(err)
	}
	// Output: looks up Oslo
}

func call(ctx context.Context, limiter *reserve.Limiter, url string) (int, error) {
	paced, err := transport.New(transport.Config{Limiter: limiter})
	if err != nil {
		return 0, err
	}
	api := &http.Client{Transport: paced}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := api.Do(request) // waits for its turn
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func Example_readmeHTTP() {
	limiter, err := reserve.New(client, reserve.Config{Name: "readme-http", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	fmt.Println(call(context.Background(), limiter, api.URL))
	// Output: 200 <nil>
}

func askModel(ctx context.Context, client redis.UniversalClient, url string) (int, error) {
	set, err := llm.New(client, llm.Config{Account: "anthropic/prod", Preset: llm.Anthropic("claude-fable-5", llm.Build)})
	if err != nil {
		return 0, err
	}
	defer set.Close()
	api := set.Client(nil) // an *http.Client for any SDK: its requests wait for their turns
	body := strings.NewReader(`{"model":"claude-fable-5","max_tokens":100}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", body)
	if err != nil {
		return 0, err
	}
	response, err := api.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func Example_readmeModels() {
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	fmt.Println(askModel(context.Background(), client, api.URL))
	// Output: 200 <nil>
}

func do(_ context.Context, job string) { fmt.Println("does", job) }

func Example_production() {
	fmt.Println(run("redis://"+client.Options().Addr, []string{"Oslo", "Lima"}))
	// Output:
	// does Oslo
	// does Lima
	// <nil>
}

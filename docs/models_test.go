package docs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func serveModel(ctx context.Context, set *llm.Set, connection asynq.RedisConnOpt, call func(context.Context, *http.Client) error) error {
	api := set.Client(nil) // a request waits for its turn here, in its handler
	config := asynq.Config{
		Concurrency: 500, // handlers that wait, and handlers whose calls run
		IsFailure:   func(err error) bool { return waitAgain(err) == 0 },
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			return cmp.Or(waitAgain(err), asynq.DefaultRetryDelayFunc(n, err, task))
		},
	}
	server := asynq.NewServer(connection, config)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return call(ctx, api) })); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// waitAgain returns how long to put back a task whose call had no turn; 0 if it failed for another reason.
func waitAgain(err error) time.Duration {
	var gone *llm.Exhausted
	var late *reserve.Error
	switch {
	case errors.As(err, &gone) && gone.Until.IsZero():
		return time.Minute // nobody knows the end
	case errors.As(err, &gone): // somebody may resume it earlier
		return min(time.Minute, max(time.Second, time.Until(gone.Until)))
	case errors.Is(err, reserve.ErrWouldMissDeadline) && errors.As(err, &late):
		return max(time.Second, late.RetryAfter)
	}
	return 0
}

// usedUp reports whether a call was not served because the account is used up, and when to try again.
func usedUp(ctx context.Context, set *llm.Set, response *http.Response, err error) (again time.Time, yes bool) {
	var gone *llm.Exhausted
	switch {
	case errors.As(err, &gone): // the call had no turn
		again, yes = gone.Until, true
	case err == nil && response != nil && response.Header.Get("X-Should-Retry") == "false": // the provider has refused it
		states, _ := set.Limits().States(ctx)
		for _, state := range states {
			if state.Stopped {
				again, yes = state.StoppedUntil, true
			}
		}
	}
	if soon := time.Now().Add(time.Minute); yes && (again.IsZero() || again.After(soon)) { // somebody may resume it earlier
		again = soon
	}
	return again, yes
}

// startModel returns an account at an emulator, and a Set of it.
func startModel(account string) (api *emulator.OpenAI, url string, set *llm.Set, done func()) {
	api, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 600, Tokens: 1_000_000,
		Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return emulator.Answer{Input: 10, Output: 10} }}})
	if err != nil {
		panic(err)
	}
	if set, err = llm.New(client, llm.Config{Account: account, Preset: llm.OpenAI("m", 600, 1_000_000)}); err != nil {
		panic(err)
	}
	server := httptest.NewServer(api)
	return api, server.URL + "/v1/chat/completions", set, func() { server.Close(); set.Close() }
}

func Example_asynqModel() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_, url, set, done := startModel("asynq-model")
	defer done()
	connection := asynq.RedisClientOpt{Addr: client.Options().Addr}
	enqueuer, inspector := asynq.NewClient(connection), asynq.NewInspector(connection)
	defer enqueuer.Close()
	defer inspector.Close()
	if _, err := enqueuer.Enqueue(asynq.NewTask("summarize", nil)); err != nil {
		fmt.Println(err)
	}
	err := serveModel(ctx, set, connection, func(ctx context.Context, api *http.Client) error {
		for {
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"m","max_tokens":100}`))
			response, err := api.Do(request)
			if err != nil {
				stop() // a worker runs until SIGTERM
				return err
			}
			fmt.Println(response.Status)
			_ = response.Body.Close()
			if err := set.Stop(ctx, time.Now().Add(time.Hour), "the spend limit"); err != nil {
				return err
			}
		}
	})
	tasks, _ := inspector.ListRetryTasks("default")
	for _, task := range tasks {
		fmt.Println("comes back in", time.Until(task.NextProcessAt).Round(time.Minute), "after", task.Retried, "retries")
	}
	fmt.Println(err)
	// Output:
	// 200 OK
	// comes back in 1m0s after 0 retries
	// <nil>
}

func Example_usedUp() {
	ctx := context.Background()
	api, url, set, done := startModel("used-up")
	defer done()
	for _, body := range []string{`{"model":"m"}`, `{`, `{"model":"m"}`, `{"model":"m"}`} {
		response, err := set.Client(nil).Post(url, "application/json", strings.NewReader(body))
		if err == nil {
			_ = response.Body.Close()
		}
		again, yes := usedUp(ctx, set, response, err)
		fmt.Println(err == nil, yes, yes && time.Until(again).Round(time.Minute) == time.Minute)
		if body == `{` {
			api.Stop("insufficient_quota")
		}
	}
	// Output:
	// true false false
	// true false false
	// true true true
	// false true true
}

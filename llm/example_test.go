package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// startRedis stands for your own Redis.
func startRedis() (*redis.Client, func()) {
	server, err := embedded.Start("")
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

// startAPI stands for the provider.
func startAPI() *httptest.Server {
	api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: 1_500_000, Output: 300_000,
		Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Input: 20_000, CacheRead: 60_000, Output: 800}
		}}})
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(api)
}

// All requests of an SDK, streams too, take their turns, and are settled by what they have used.
func Example() {
	api := startAPI()
	defer api.Close()
	client, stop := startRedis()
	defer stop()
	set, err := llm.New(client, llm.Config{
		Account: "anthropic/prod",                           // the account: one name for each credential
		Preset:  llm.Anthropic("claude-fable-5", llm.Build), // each figure can be overridden
		Slots:   200,                                        // calls at once
		Share:   0.8,                                        // of each limit but the slots; others use this account, too
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	paced := set.Client(nil) // for example anthropic.NewClient(option.WithHTTPClient(paced))

	response, err := paced.Post(api.URL+"/v1/messages", "application/json", strings.NewReader(`{"model":"claude-fable-5","stream":true,"max_tokens":4096}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

// A call that another client makes, such as one of gRPC, is settled by hand.
func ExampleSet_Acquire() {
	client, stop := startRedis()
	defer stop()
	set, err := llm.New(client, llm.Config{Account: "own", Preset: llm.OpenAI("m", 600, 100_000)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	call, err := set.Acquire(context.Background(), llm.Estimate{Input: 2_000, Output: 800, Max: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.Close() // a call that ends early is settled by what is known
	stream := []llm.Usage{{Input: 1_900}, {Input: 1_900, Output: 100}, {Input: 1_900, Output: 250}}
	for _, usage := range stream {
		call.Saw(usage) // totals
	}
	call.Done() // the numbers are exact
	fmt.Println("done")
	// Output: done
}

// A provider without a preset names its limits in headers of its own.
func ExampleWindows() {
	client, stop := startRedis()
	defer stop()
	preset := llm.Preset{
		API: bodies.OpenAI, Model: "gpt-oss-120b", Requests: 1000, Tokens: 1_000_000, // the API says how bodies are read
		Windows: llm.Windows{Requests: "-", Tokens: "tokens-minute"}, // x-ratelimit-limit-tokens-minute; no header states the requests of a minute
	}
	set, err := llm.New(client, llm.Config{Account: "cerebras", Preset: preset, Slots: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	fmt.Println(set.Limits())
	// Output: gpt-oss-120b/requests + gpt-oss-120b/tokens + calls
}

// When the account is used up, the next Set of the chain makes the call.
func ExampleChain() {
	client, stop := startRedis()
	defer stop()
	opus, err := llm.New(client, llm.Config{Account: "anthropic", Preset: llm.Anthropic("claude-opus-5", llm.Build)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer opus.Close()
	azure, err := llm.New(client, llm.Config{Account: "azure", Preset: llm.Azure("gpt", 240_000)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer azure.Close()
	chain := llm.Chain(opus, azure)
	ctx := llm.Tenant(context.Background(), "customer-17", 1)
	midnight := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, stops := range []*llm.Set{nil, opus, azure} {
		if stops != nil {
			if err := stops.Stop(ctx, midnight, "the spend cap"); err != nil {
				fmt.Println(err)
			}
		}
		pick, call, err := chain.Acquire(ctx, llm.Estimate{Input: 1000, Output: 500, Max: 1000}, 20*time.Second)
		var gone *llm.Exhausted
		if errors.As(err, &gone) {
			again := gone.Until
			if again.IsZero() { // nobody knows the end: it may be resumed at any time
				again = time.Now().Add(time.Minute)
			}
			fmt.Println("try again at", again.Format(time.DateOnly), "because of", gone.Reason)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("Set", pick)
		call.Done()
	}
	// Output:
	// Set 0
	// Set 1
	// try again at 2100-01-01 because of the spend cap
}

// A person waits for the answer: the call goes ahead of the batch work, which leaves a tenth of the tokens free.
func ExampleUrgent() {
	api := startAPI()
	defer api.Close()
	client, stop := startRedis()
	defer stop()
	set, err := llm.New(client, llm.Config{Account: "anthropic", Preset: llm.Anthropic("claude-fable-5", llm.Build), Background: 0.9})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	ctx := llm.Urgent(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api.URL+"/v1/messages", strings.NewReader(`{"model":"claude-fable-5","max_tokens":100}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := set.Client(nil).Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

// An SDK uses two accounts, of which the second one serves another model.
func ExampleChained_Client() {
	client, stop := startRedis()
	defer stop()
	api := startAPI()
	defer api.Close()
	var models [2]*llm.Set
	for i, model := range []string{"claude-opus-5", "claude-fable-5"} {
		set, err := llm.New(client, llm.Config{Account: "anthropic", Preset: llm.Anthropic(model, llm.Build)})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer set.Close()
		models[i] = set
	}
	names := []string{"claude-opus-5", "claude-fable-5"}
	chained := llm.Chain(models[0], models[1]).Client(nil, 20*time.Second, func(pick int, r *http.Request) error {
		return llm.SetModel(r, names[pick]) // the URL and the headers may change, too
	})
	response, err := chained.Post(api.URL+"/v1/messages", "application/json", strings.NewReader(`{"model":"any","max_tokens":100}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, strings.Contains(string(text), "claude-opus-5"), err)
	// Output: 200 OK true <nil>
}

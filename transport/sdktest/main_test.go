//go:build models

package sdktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"
	"google.golang.org/genai"

	"github.com/fleetpace/fleetpace/llm"
)

// orders are what a process of the fleet does. It gets them as JSON in this variable.
type orders struct {
	SDK, Redis, API string
	Stopped         string // an address that says whether the account has been stopped
	Agents          int
	Stops, Ends     time.Time
}

const ordersIn = "FLEETPACE_SDKTEST_ORDERS"

// told is what a process tells in the end.
type told struct {
	Calls    int
	Known    []time.Time // when each agent had its first ErrExhausted
	Errors   []string    // others before the stop
	PerAgent int         // bytes of memory
}

func TestMain(m *testing.M) {
	text := os.Getenv(ordersIn)
	if text == "" {
		os.Exit(m.Run())
	}
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// memory is how much memory the process uses, after a collection.
func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse) //nolint:gosec // it fits
}

// run is a process of the fleet: each agent makes one call after the other.
func (o orders) run() error {
	options, err := redis.ParseURL(o.Redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	set, err := llm.New(client, llm.Config{Account: "a", Preset: presets[o.SDK], Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer set.Close()
	call, err := sdks[o.SDK](set.Client(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}), o.API)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), o.Ends)
	defer cancel()
	var mu sync.Mutex
	var t told
	before := memory()
	time.AfterFunc(time.Until(o.Stops)/2, func() {
		mu.Lock()
		defer mu.Unlock()
		t.PerAgent = (memory() - before) / o.Agents
	})
	var agents sync.WaitGroup
	for range o.Agents {
		agents.Go(func() {
			knows := false
			for ctx.Err() == nil {
				err := call(context.WithoutCancel(ctx), ctx.Done())
				early := err != nil && !errors.Is(err, llm.ErrExhausted) && !o.stopped()
				mu.Lock()
				switch {
				case err == nil:
					t.Calls++
				case errors.Is(err, llm.ErrExhausted):
					if !knows {
						t.Known, knows = append(t.Known, time.Now()), true
					}
				case early:
					t.Errors = append(t.Errors, err.Error())
				}
				mu.Unlock()
				if err != nil {
					time.Sleep(200 * time.Millisecond)
				}
			}
		})
	}
	agents.Wait()
	return json.NewEncoder(os.Stdout).Encode(t)
}

// stopped reports whether the account has been stopped. The order of events decides, and no clock: what has failed before
// the account says no has failed before the stop.
func (o orders) stopped() bool {
	response, err := http.Get(o.Stopped)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusGone
}

var presets = map[string]llm.Preset{
	"anthropic-sdk-go": llm.Anthropic("claude-fable-5", llm.Build), "openai-go": llm.OpenAI("gpt", 5000, 2_000_000), "genai": llm.Gemini("gemini", 1000, 2_000_000),
}

// sdks make calls by the providers' own clients. A call ends early if the fleet does.
var sdks = map[string]func(paced *http.Client, url string) (call func(context.Context, <-chan struct{}) error, err error){
	"anthropic-sdk-go": func(paced *http.Client, url string) (func(context.Context, <-chan struct{}) error, error) {
		client := anthropic.NewClient(anthropicoption.WithHTTPClient(paced), anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("none"))
		prompt := strings.Repeat("word ", 13_200)
		return during(func(ctx context.Context) error {
			stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
				Model: "claude-fable-5", MaxTokens: 8192, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
			})
			for stream.Next() {
			}
			return stream.Err()
		}), nil
	},
	"openai-go": func(paced *http.Client, url string) (func(context.Context, <-chan struct{}) error, error) {
		client := openai.NewClient(option.WithHTTPClient(paced), option.WithBaseURL(url), option.WithAPIKey("none"))
		prompt := strings.Repeat("word ", 1800)
		return during(func(ctx context.Context) error {
			stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
				Model: "gpt", MaxCompletionTokens: openai.Int(4096), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
			})
			for stream.Next() {
			}
			return stream.Err()
		}), nil
	},
	"genai": func(paced *http.Client, url string) (func(context.Context, <-chan struct{}) error, error) {
		client, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: "none", Backend: genai.BackendGeminiAPI, HTTPClient: paced, HTTPOptions: genai.HTTPOptions{BaseURL: url}})
		prompt := genai.Text(strings.Repeat("word ", 1800))
		return during(func(ctx context.Context) error {
			for _, err := range client.Models.GenerateContentStream(ctx, "gemini", prompt, &genai.GenerateContentConfig{MaxOutputTokens: 1000}) {
				if err != nil {
					return err
				}
			}
			return nil
		}), err
	},
}

// during gives a call a context without a deadline: with one, calls fail at once whose turn would come later.
func during(call func(context.Context) error) func(context.Context, <-chan struct{}) error {
	return func(ctx context.Context, done <-chan struct{}) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-done:
				cancel()
			case <-over:
			}
		}()
		return call(ctx)
	}
}

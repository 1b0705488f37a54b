package fleetaws_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/llm/fleetaws"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// fleet is a Set, and a client of the SDK whose requests go to a handler.
type fleet struct {
	*bedrockruntime.Client
	set *llm.Set
}

var keys = aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}

func newFleet(t *testing.T, tokens int, api http.Handler) fleet {
	set, err := llm.New(bubble.New(t).Client(), llm.Config{Account: "a", Preset: llm.Bedrock("claude", tokens), Slots: 100, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(set.Close)
	provider := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil })
	return fleet{bedrockruntime.NewFromConfig(aws.Config{Region: "eu-west-1", Credentials: provider, HTTPClient: &http.Client{Transport: emulator.RoundTripper(api)}}, fleetaws.Turns(set)), set}
}

// left returns what is left of the tokens and of the slots, once the costs of ended calls are settled.
func (f fleet) left(t *testing.T) (tokens, slots float64) {
	time.Sleep(252 * time.Millisecond) // the costs of calls share a trip
	synctest.Wait()
	states, err := f.set.Limits().States(t.Context())
	require.NoError(t, err)
	if tokens = states[0].Stored; tokens < 10_000 && states[0].Paused == 0 {
		tokens -= 252 // refilled since: 60,000 a minute
	}
	return tokens, states[1].Stored
}

var hello = []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "hello"}}}}

func (f fleet) converse(ctx context.Context, most int32) error {
	_, err := f.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String("claude"), Messages: hello, InferenceConfig: &types.InferenceConfiguration{MaxTokens: &most}})
	return err
}

// stream returns the text of a stream.
func (f fleet) stream(ctx context.Context) (text string, err error) {
	answer, err := f.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String("claude"), Messages: hello, InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(500)}})
	if err != nil {
		return "", err
	}
	for event := range answer.GetStream().Events() {
		if block, ok := event.(*types.ConverseStreamOutputMemberContentBlockDelta); ok {
			text += block.Value.Delta.(*types.ContentBlockDeltaMemberText).Value
		}
	}
	return text, errors.Join(answer.GetStream().Err(), answer.GetStream().Close())
}

// frame returns a message of an event stream, as the SDK encodes it.
func frame(kind, name, payload string) []byte {
	m := eventstream.Message{Payload: []byte(payload)}
	for name, value := range map[string]string{":message-type": kind, ":" + kind + "-type": name, ":content-type": "application/json"} {
		m.Headers.Set(name, eventstream.StringValue(value))
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const (
	usage   = `"usage":{"inputTokens":100,"outputTokens":30,"totalTokens":130,"cacheReadInputTokens":7,"cacheWriteInputTokens":5}`
	metrics = `"amazon-bedrock-invocationMetrics":{"inputTokenCount":100,"outputTokenCount":30,"cacheReadInputTokenCount":7,"cacheWriteInputTokenCount":5}`
	message = `{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn",`
)

var delta = frame("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hi"}}`)

func chunk(event string) []byte {
	return frame("event", "chunk", fmt.Sprintf(`{"bytes":%q}`, base64.StdEncoding.EncodeToString([]byte(event))))
}

// Each way to call a model costs what its response states, whatever was reserved, and however the bytes come. What a
// stream does not state stays at its estimate. The SDK gets what the model says.
func TestCosts(t *testing.T) {
	const settled, estimated, paused = 10_000 - (100 + 5 + 5*30), 10_000 - (500 + 24), 0 // prompt, cache, and answers five times; max_tokens and the prompt's bytes
	converse := func(t *testing.T, f fleet) { require.NoError(t, f.converse(t.Context(), 500)) }
	stream := func(want string, kind any) func(*testing.T, fleet) {
		return func(t *testing.T, f fleet) {
			text, err := f.stream(t.Context())
			assert.Equal(t, want, text)
			if kind == nil {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, kind)
			}
		}
	}
	body := []byte(`{"max_tokens":500,"messages":[{"role":"user","content":"hello"}]}`)
	for name, c := range map[string]struct {
		call     func(*testing.T, fleet)
		parts    [][]byte
		streamed bool
		left     float64
	}{
		"Converse":              {converse, [][]byte{[]byte(message + usage + `}`)}, false, settled},
		"ConverseStream":        {stream("hihi", nil), [][]byte{delta, delta, frame("event", "messageStop", `{"stopReason":"end_turn"}`), frame("event", "metadata", `{`+usage+`}`)}, true, settled},
		"a stream is cut":       {stream("hi", nil), [][]byte{delta}, true, estimated},
		"a stream is throttled": {stream("hi", new(*types.ThrottlingException)), [][]byte{delta, frame("exception", "throttlingException", `{"message":"Too many tokens"}`)}, true, paused},
		"InvokeModel": {func(t *testing.T, f fleet) {
			answer, err := f.InvokeModel(t.Context(), &bedrockruntime.InvokeModelInput{ModelId: aws.String("claude"), Body: body, ContentType: aws.String("application/json")})
			require.NoError(t, err)
			assert.Equal(t, "hi", string(answer.Body))
		}, [][]byte{[]byte("hi")}, false, settled},
		"InvokeModelWithResponseStream": {func(t *testing.T, f fleet) {
			answer, err := f.InvokeModelWithResponseStream(t.Context(), &bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: aws.String("claude"), Body: body, ContentType: aws.String("application/json")})
			require.NoError(t, err)
			var text []byte
			for event := range answer.GetStream().Events() {
				text = append(text, event.(*types.ResponseStreamMemberChunk).Value.Bytes...)
			}
			require.NoError(t, answer.GetStream().Close())
			assert.Equal(t, `{"a":1}{`+metrics+`}`, string(text))
		}, [][]byte{chunk(`{"a":1}`), chunk(`{` + metrics + `}`)}, true, settled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				size := 0
				f := newFleet(t, 60_000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if c.streamed {
						w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
					} else if strings.HasSuffix(r.URL.Path, "/invoke") {
						for name, n := range map[string]string{"Input": "100", "Output": "30", "Cache-Read-Input": "7", "Cache-Write-Input": "5"} {
							w.Header().Set("X-Amzn-Bedrock-"+name+"-Token-Count", n)
						}
					}
					for part := range slices.Chunk(slices.Concat(c.parts...), size) {
						_, _ = w.Write(part)
					}
				}))
				for _, size = range []int{1, 7, 1 << 20} {
					c.call(t, f)
					tokens, slots := f.left(t)
					assert.InDelta(t, c.left, tokens, 20)
					assert.InDelta(t, 100, slots, 0)
					time.Sleep(time.Minute) // the bucket is full
				}
			})
		})
	}
}

// A stream that the caller closes early gives its slot back, and costs its estimate.
func TestClosedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 60_000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
			_, _ = w.Write(delta)
			<-r.Context().Done()
		}))
		answer, err := f.ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{ModelId: aws.String("claude"), Messages: hello, InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(500)}})
		require.NoError(t, err)
		<-answer.GetStream().Events()
		_, slots := f.left(t)
		assert.InDelta(t, 99, slots, 0)
		require.NoError(t, answer.GetStream().Close())
		tokens, slots := f.left(t)
		assert.InDelta(t, 10_000-(500+24)+252, tokens, 20) // it has refilled before, too
		assert.InDelta(t, 100, slots, 0)
	})
}

// In a queue of 8 minutes, each request is signed when it is sent, and none is refused.
func TestLongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewBedrock(emulator.BedrockConfig{Tokens: 3000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Input: 500, Output: 200, Wait: time.Second}
		}}})
		require.NoError(t, err)
		f := newFleet(t, 3000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			again := r.Clone(r.Context())
			again.Header.Del("Authorization")
			assert.NoError(t, v4.NewSigner().SignHTTP(r.Context(), keys, again, fmt.Sprintf("%x", sha256.Sum256(text)), "bedrock", "eu-west-1", time.Now()))
			assert.Equal(t, again.Header.Get("Authorization"), r.Header.Get("Authorization"))
			r.Body = io.NopCloser(bytes.NewReader(text))
			api.ServeHTTP(w, r)
		}))
		var calls sync.WaitGroup
		begin := time.Now()
		for range 16 {
			calls.Go(func() { assert.NoError(t, f.converse(t.Context(), 1000)) })
		}
		calls.Wait()
		assert.InDelta(t, 8, time.Since(begin).Minutes(), 1.5)
		assert.Equal(t, 16, api.Report().Admitted)
		assert.Empty(t, api.Report().Refused)
	})
}

// The SDK repeats a throttled request, which takes another turn. A day's quota stops the model: the SDK's retries and
// other calls fail at once, and are not sent.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, text := []time.Time{}, "Too many tokens, please wait before trying again."
		f := newFleet(t, 60_000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if sent = append(sent, time.Now()); len(sent) == 2 {
				_, _ = fmt.Fprint(w, message+usage+`}`)
				return
			}
			w.Header().Set("X-Amzn-Errortype", "ThrottlingException:http://internal.amazon.com/")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, `{"message":%q}`, text)
		}))
		require.NoError(t, f.converse(t.Context(), 500))
		require.Len(t, sent, 2)
		assert.GreaterOrEqual(t, sent[1].Sub(sent[0]), time.Second) // the pause
		text = "Too many tokens per day, please wait before trying again."
		for range 2 {
			err := f.converse(t.Context(), 500)
			var gone *llm.Exhausted
			require.ErrorAs(t, err, &gone)
			assert.Equal(t, "bedrock-runtime.eu-west-1.amazonaws.com answered 429: ThrottlingException", gone.Reason)
			assert.Equal(t, 0, gone.Until.UTC().Hour())
		}
		assert.Len(t, sent, 3)
	})
}

// A call takes its turn at the Set of its own option, and none at the client's.
func TestOtherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 60_000, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, message+usage+`}`)
		}))
		other := newFleet(t, 60_000, http.NotFoundHandler())
		_, err := f.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("claude"), Messages: hello}, fleetaws.Turns(other.set))
		require.NoError(t, err)
		tokens, _ := other.left(t)
		assert.InDelta(t, 10_000-(100+5+5*30), tokens, 0)
		tokens, _ = f.left(t)
		assert.InDelta(t, 10_000, tokens, 0)
	})
}

// A request that the SDK cannot sign or send gives its slot and its tokens back. One whose turn would come too late fails at once, without the
// SDK's retries, and a caller who leaves gets the error of its context.
func TestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 60_000, http.NotFoundHandler())
		_, err := f.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("claude"), Messages: hello}, func(o *bedrockruntime.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no keys") })
		})
		require.ErrorContains(t, err, "no keys")
		assertUnused := func() {
			tokens, slots := f.left(t)
			assert.InDelta(t, 10_000, tokens, 0)
			assert.InDelta(t, 100, slots, 0)
		}
		assertUnused()
		_, err = f.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("claude"), Messages: hello}, func(o *bedrockruntime.Options) {
			o.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }}}
		})
		require.ErrorContains(t, err, "no route")
		assertUnused()
		require.NoError(t, f.set.Limits().Pause(t.Context(), time.Hour, "test"))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		require.ErrorIs(t, f.converse(ctx, 500), reserve.ErrWouldMissDeadline)
		cancel()
		assert.Zero(t, time.Since(begin))
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.ErrorIs(t, f.converse(ctx, 500), context.Canceled)
	})
}

// pipes is a transport of net/http whose connections lead to a handler.
func pipes(t *testing.T, api http.HandlerFunc) *http.Transport {
	listener := make(pipeListener)
	server := &http.Server{Handler: api, ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		listener <- there
		return here, nil
	}
	return &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}
}

type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l pipeListener) Close() error { close(l); return nil }

func (pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A request that fetches credentials is no attempt of the call: it takes no second turn.
func TestCredentialsTakeNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 60_000, http.NotFoundHandler())
		fetches := pipes(t, func(http.ResponseWriter, *http.Request) {})
		_, err := f.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("claude"), Messages: hello, InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(500)}}, func(o *bedrockruntime.Options) {
			o.HTTPClient = &http.Client{Transport: pipes(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // a pipe has no buffer: what is not read may fail the request
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, message+usage+`}`)
			})}
			o.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://metadata", nil)
				if err != nil {
					return aws.Credentials{}, err
				}
				response, err := fetches.RoundTrip(r)
				if err == nil {
					_ = response.Body.Close()
				}
				return keys, err
			})
		})
		require.NoError(t, err)
		tokens, _ := f.left(t)
		assert.InDelta(t, 10_000-(100+5+5*30), tokens, 0)
	})
}

package transport_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// models are limits as accounts of models have them: requests, input and output, and calls at a time.
func models(t testing.TB, b *bubble.Bubble) (all *reserve.Joint, input, output *reserve.Limiter) {
	t.Helper()
	client := b.Client()
	limit := func(name string, l reserve.Limit, settles bool) *reserve.Limiter {
		return b.Limiter(client, reserve.Config{Name: name, Group: "llm", Limit: l, Settles: settles})
	}
	input, output = limit("input", reserve.PerHour(60).Burst(30_000), true), limit("output", reserve.PerHour(60).Burst(8000), true)
	all, err := reserve.All(limit("requests", reserve.PerHour(60).Burst(50), false), input, output, limit("calls", reserve.Concurrent(2), false))
	require.NoError(t, err)
	return all, input, output
}

// modelClient is the transport of one call of 10,000 estimated tokens of input, and 2000 of output.
func modelClient(t *testing.T, all *reserve.Joint, api http.RoundTripper) *transport.Transport {
	t.Helper()
	return newTransport(t, transport.Config{
		Base: api, API: bodies.Anthropic,
		Choose: func(*http.Request) (transport.Need, error) {
			return transport.Need{Limiter: all, Costs: []int{1, 10_000, 2000, 1}, Windows: []string{"requests", "input-tokens", "output-tokens", "calls"}}, nil
		},
		Tokens: func(_ *http.Response, u bodies.Usage) []int { return []int{-1, u.Input + u.CacheWrite, u.Output, -1} },
	})
}

// What is left of a limit, in whole permits.
func left(t *testing.T, l *reserve.Limiter) int {
	t.Helper()
	state, err := l.State(t.Context())
	require.NoError(t, err)
	return int(state.Stored)
}

// The costs of a call follow what its body says, however it travels and ends. The slot is free again, and the caller
// waits for nothing.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name          string
		stream        bool
		wire          emulator.Wire
		answer        emulator.Answer
		zipped        bool
		closes        time.Duration // the client closes the body
		input, output int           // used
	}{
		{"a stream", true, emulator.Wire{}, emulator.Answer{}, false, 0, 1500, 400},
		{"a stream in parts", true, emulator.Wire{Split: 1}, emulator.Answer{}, false, 0, 1500, 400},
		{"a compressed stream", true, emulator.Wire{Split: 3, Gzip: true}, emulator.Answer{}, true, 0, 1500, 400},
		{"a document", false, emulator.Wire{Split: 5}, emulator.Answer{}, false, 0, 1500, 400},
		{"a compressed document", false, emulator.Wire{Gzip: true}, emulator.Answer{}, true, 0, 1500, 400},
		{"cut by the provider", true, emulator.Wire{}, emulator.Answer{Cut: 0.5}, false, 0, 1500, 200},
		{"cut by a broken connection", true, emulator.Wire{}, emulator.Answer{Cut: 0.25, Reset: true}, false, 0, 1500, 100},
		{"cut by an error", true, emulator.Wire{}, emulator.Answer{Cut: 0.5, Error: "overloaded_error"}, false, 0, 1500, 200},
		{"cut by the client", true, emulator.Wire{}, emulator.Answer{}, false, 2100 * time.Millisecond, 1500, 200},
		{"cut, and compressed", true, emulator.Wire{Gzip: true}, emulator.Answer{Cut: 0.5, Reset: true}, true, 0, 1500, 200},
		{"a document that is cut states nothing", false, emulator.Wire{}, emulator.Answer{}, false, 2 * time.Second, 10_000, 2000},
		{"a refusal", true, emulator.Wire{}, emulator.Answer{Refuse: "overloaded_error", Status: 529}, false, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.answer.Input, c.answer.CacheRead, c.answer.CacheWrite, c.answer.Output, c.answer.PerSecond = 1000, 60_000, 500, 400, 100
				c.wire.Answer = func(emulator.Call) emulator.Answer { return c.answer }
				api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: c.wire})
				require.NoError(t, err)
				all, input, output := models(t, bubble.New(t))
				body := `{"model":"m","max_tokens":4000}`
				if c.stream {
					body = `{"model":"m","max_tokens":4000,"stream":true}`
				}
				r := newRequest(t, http.MethodPost, "https://api.example/v1/messages", strings.NewReader(body))
				if c.zipped {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				began := time.Now()
				if c.closes > 0 && !c.stream {
					ctx, cancel := context.WithTimeout(t.Context(), c.closes)
					defer cancel()
					r = r.WithContext(ctx)
				}
				response, err := modelClient(t, all, emulator.RoundTripper(api)).RoundTrip(r)
				if err == nil {
					if c.closes > 0 {
						time.AfterFunc(c.closes, func() { _ = response.Body.Close() })
					}
					text, _ := io.ReadAll(response.Body)
					if c.zipped {
						assert.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
						z, err := gzip.NewReader(bytes.NewReader(text))
						require.NoError(t, err)
						text, _ = io.ReadAll(z)
					}
					if c.answer.Refuse == "" {
						assert.Contains(t, string(text), `"input_tokens":1000`)
					}
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				if c.closes == 0 && c.answer.Cut == 0 && c.answer.Refuse == "" {
					assert.InDelta(t, 4, time.Since(began).Seconds(), 0.01)
				}
				time.Sleep(time.Second) // the use is on its way
				assert.InDelta(t, 30_000-c.input, left(t, input), 1)
				assert.InDelta(t, 8000-c.output, left(t, output), 1)
				state, err := all.Limits()[3].State(t.Context())
				require.NoError(t, err)
				assert.Empty(t, state.Holders, "the body was not closed, but it has ended")
				if err == nil && response != nil {
					_ = response.Body.Close()
				}
			})
		})
	}
}

// The prompt of a stream is settled when the stream states it, compressed or not.
func TestPromptOfAStream(t *testing.T) {
	for _, zip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{Gzip: zip, Answer: func(emulator.Call) emulator.Answer {
				return emulator.Answer{Input: 1500, Output: 400, PerSecond: 10}
			}}})
			require.NoError(t, err)
			all, input, _ := models(t, bubble.New(t))
			paced := newTransport(t, transport.Config{
				Base: emulator.RoundTripper(api), API: bodies.Anthropic,
				Choose: func(*http.Request) (transport.Need, error) {
					return transport.Need{Limiter: all, Costs: []int{1, 10_000, 2000, 1}}, nil
				},
				Tokens: func(_ *http.Response, u bodies.Usage) []int { return []int{-1, u.Input, u.Output, -1} },
				Early:  func(_ *http.Response, u bodies.Usage) []int { return []int{-1, u.Input, -1, -1} },
			})
			r := newRequest(t, http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"model":"m","max_tokens":4000,"stream":true}`))
			r.Header.Set("Accept-Encoding", "gzip")
			response, err := paced.RoundTrip(r)
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, response.Body) }()
			time.Sleep(2 * time.Second)
			assert.InDelta(t, 30_000-1500, left(t, input), 1, "compressed: %v", zip)
			require.NoError(t, response.Body.Close())
		})
	}
}

// trips counts scripts that settle.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && cmd.Args()[1] == lua.Settle.Hash() {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (*trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The prompts and the ends of many streams are settled by four trips a second, and when the limiter is closed.
func TestStreamsSettleInFewTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 100
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 10_000, Input: 3_000_000, Output: 800_000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Input: 1500, Output: 400, PerSecond: 100}
		}}})
		require.NoError(t, err)
		b, counts := bubble.New(t), &trips{}
		client := b.Client()
		client.AddHook(counts)
		limiter := b.Limiter(client, reserve.Config{Name: "tokens", Limit: reserve.PerHour(60).Burst(1_000_000), Settles: true})
		paced := newTransport(t, transport.Config{
			Base: emulator.RoundTripper(api), API: bodies.Anthropic,
			Choose: func(*http.Request) (transport.Need, error) {
				return transport.Need{Limiter: limiter, Costs: []int{1000}, Window: "tokens"}, nil
			},
			Tokens: func(_ *http.Response, u bodies.Usage) []int { return []int{u.Input + u.Output} },
			Early:  func(_ *http.Response, u bodies.Usage) []int { return []int{u.Input} },
		})
		var all sync.WaitGroup
		began := time.Now()
		for range streams {
			all.Go(func() {
				response, err := paced.RoundTrip(newRequest(t, http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"model":"m","max_tokens":4000,"stream":true}`)))
				if assert.NoError(t, err) {
					_, err = io.Copy(io.Discard, response.Body)
					assert.NoError(t, err)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		all.Wait()
		seconds := time.Since(began).Seconds()
		before := left(t, limiter)
		require.NoError(t, limiter.Close())
		again := b.Limiter(b.Client(), reserve.Config{Name: "tokens", Limit: reserve.PerHour(60).Burst(1_000_000), Settles: true})
		assert.InDelta(t, 1_000_000-streams*(1500+400), left(t, again), 1, "%d before", before)
		t.Logf("%d trips in %.1f s for %d reports", counts.n.Load(), seconds, 2*streams)
		assert.LessOrEqual(t, float64(counts.n.Load()), 4*seconds+2)
	})
}

// Early that returns too many numbers breaks no stream.
func TestEarlyOfOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 10, Input: 10_000, Output: 10_000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
			return emulator.Answer{Input: 1500, Output: 400, PerSecond: 100}
		}}})
		require.NoError(t, err)
		b := bubble.New(t)
		limiter := b.Limiter(b.Client(), reserve.Config{Name: "tokens", Limit: reserve.PerHour(60).Burst(10_000), Settles: true})
		paced := newTransport(t, transport.Config{
			Base: emulator.RoundTripper(api), API: bodies.Anthropic,
			Choose: func(*http.Request) (transport.Need, error) {
				return transport.Need{Limiter: limiter, Costs: []int{1000}, Window: "tokens"}, nil
			},
			Tokens: func(_ *http.Response, u bodies.Usage) []int { return []int{u.Input + u.Output} },
			Early:  func(_ *http.Response, u bodies.Usage) []int { return []int{u.Input, u.Output} },
		})
		response, err := paced.RoundTrip(newRequest(t, http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"model":"m","max_tokens":4000,"stream":true}`)))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, limiter.Close())
		again := b.Limiter(b.Client(), reserve.Config{Name: "tokens", Limit: reserve.PerHour(60).Burst(10_000), Settles: true})
		assert.InDelta(t, 10_000-1900, left(t, again), 1)
	})
}

// parts is a body that comes in these parts, and ends with an error.
type parts struct {
	rest   [][]byte
	err    error
	closed int
}

func (p *parts) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, p.err
	}
	n := copy(b, p.rest[0])
	if p.rest[0] = p.rest[0][n:]; len(p.rest[0]) == 0 {
		p.rest = p.rest[1:]
	}
	if len(p.rest) == 0 && p.err != io.EOF { //nolint:errorlint // this very value
		return n, p.err // readers may return bytes with their error
	}
	return n, nil
}

func (p *parts) Close() error { p.closed++; return nil }

// Each read of the caller returns the bytes of one read of the body below, its count and its error.
func FuzzBodyIsUnchanged(f *testing.F) {
	f.Add([]byte("data: {\"usage\":{\"input_tokens\":5}}\n\ndata: [DONE]\n\n"), []byte{7, 200, 1}, true, false)
	f.Add([]byte("{\"usage\":{\"input_tokens\":5}}"), []byte{1}, false, true)
	f.Add([]byte("\x1f\x8b\x08 broken"), []byte{3, 0, 3}, true, false)
	limiter := fast(f)
	f.Fuzz(func(t *testing.T, body, cuts []byte, events, whole bool) {
		end := io.EOF
		if !whole {
			end = errors.New("reset")
		}
		divide := func() *parts {
			p := &parts{err: end}
			for rest := body; len(rest) > 0; {
				n := len(rest)
				if len(cuts) > 0 {
					n = min(n, 1+int(cuts[len(p.rest)%len(cuts)]))
				}
				p.rest, rest = append(p.rest, bytes.Clone(rest[:n])), rest[n:]
			}
			return p
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if events {
			header = http.Header{"Content-Type": {"text/event-stream"}}
		}
		if bytes.HasPrefix(body, []byte("\x1f\x8b")) {
			header.Set("Content-Encoding", "gzip")
		}
		below, same := divide(), divide()
		paced, err := transport.New(transport.Config{
			API: bodies.OpenAI, Limiter: limiter,
			Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: header, Body: below, Request: r}, nil
			}),
		})
		require.NoError(t, err)
		response, err := paced.RoundTrip(newRequest(t, http.MethodPost, "https://api.example/", nil))
		require.NoError(t, err)
		got, want := make([]byte, 100), make([]byte, 100)
		for range 10_000 {
			n, err := response.Body.Read(got)
			m, wantErr := same.Read(want)
			require.Equal(t, m, n)
			require.Equal(t, wantErr, err)
			require.Equal(t, want[:m], got[:n])
			if err != nil {
				break
			}
		}
		require.NoError(t, response.Body.Close())
		require.Equal(t, 1, below.closed)
	})
}

type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// unsent is why nothing was sent.
type unsent struct{ error }

func (unsent) Unsent() {}

func (u unsent) Unwrap() error { return u.error }

// A request that was not sent costs nothing. After any other error it may have been sent, so its costs stay.
func TestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := func(dial func() (net.Conn, error)) *http.Transport {
			return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }, DisableKeepAlives: true}
		}
		fails := func(err error) baseFunc { return func(*http.Request) (*http.Response, error) { return nil, err } }
		for name, c := range map[string]struct {
			base http.RoundTripper
			sent int
		}{
			"Unsent":        {fails(unsent{io.EOF}), 0},
			"another error": {fails(io.EOF), 1},
			"no connection": {dials(func() (net.Conn, error) { return nil, io.EOF }), 0},
			"a connection that ends": {dials(func() (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					_, _ = http.ReadRequest(bufio.NewReader(there))
					_ = there.Close()
				}()
				return here, nil
			}), 1},
		} {
			all, input, output := models(t, bubble.New(t))
			_, err := modelClient(t, all, c.base).RoundTrip(newRequest(t, "POST", "http://api.test", nil)) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, io.EOF, name)
			synctest.Wait() // costs are settled in the background
			states, err := all.States(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []int{50 - c.sent, 30_000 - 10_000*c.sent, 8000 - 2000*c.sent, 2}, []int{int(states[0].Stored), left(t, input), left(t, output), int(states[3].Stored)}, name)
		}
	})
}

// To read a stream costs few allocations, however long it is.
func TestAllocationsOfBodies(t *testing.T) {
	const runs = 20
	stream := []byte(strings.Repeat("event: content_block_delta\ndata: {\"delta\":{\"text\":\"some words\"}}\n\n", 2000))
	limiter, buffer := fast(t), make([]byte, 777)
	paced := newTransport(t, transport.Config{API: bodies.Anthropic, Limiter: limiter, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream)), Request: r}, nil
	})})
	var open []io.ReadCloser
	for range runs + 1 {
		response, err := paced.RoundTrip(newRequest(t, http.MethodPost, "https://api.example/", nil))
		require.NoError(t, err)
		open = append(open, response.Body)
	}
	got := testing.AllocsPerRun(runs, func() {
		var err error
		for err == nil {
			_, err = open[0].Read(buffer)
		}
		_ = open[0].Close()
		open = open[1:]
	})
	assert.LessOrEqual(t, got, 5.0)
}

// What 64 streams of 1 MB/s cost: the time to read 64 MB through the transport, with and without a look at them.
func BenchmarkBodies(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words of text\"}}\n\n")
	stream := bytes.Repeat(event, (1<<20)/len(event))
	limiter := fast(b)
	for name, api := range map[string]bodies.API{"not read": "", "read": bodies.Anthropic} {
		b.Run(name, func(b *testing.B) {
			paced, err := transport.New(transport.Config{API: api, Limiter: limiter, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream)), Request: r}, nil
			})})
			require.NoError(b, err)
			b.SetBytes(int64(len(stream)))
			buffer := make([]byte, 4096)
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "https://api.example/", nil)
				require.NoError(b, err)
				response, err := paced.RoundTrip(r)
				require.NoError(b, err)
				for err == nil {
					_, err = response.Body.Read(buffer)
				}
				_ = response.Body.Close()
			}
		})
	}
}

// What a look at a stream costs over real connections: 64 streams at a time, as fast as they come.
func BenchmarkBodiesOverHTTP(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words of text\"}}\n\n")
	stream := bytes.Repeat(event, (1<<20)/len(event))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for p := stream; len(p) > 0; {
			n := min(len(p), 4096)
			_, _ = w.Write(p[:n])
			_ = http.NewResponseController(w).Flush()
			p = p[n:]
		}
	}))
	defer server.Close()
	limiter := fast(b)
	for name, api := range map[string]bodies.API{"not read": "", "read": bodies.Anthropic} {
		b.Run(name, func(b *testing.B) {
			base := &http.Transport{MaxIdleConnsPerHost: 64}
			defer base.CloseIdleConnections()
			paced, err := transport.New(transport.Config{API: api, Limiter: limiter, Base: base})
			require.NoError(b, err)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				buffer := make([]byte, 4096)
				for p.Next() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, nil)
					if err != nil {
						b.Error(err)
						return
					}
					response, err := paced.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					for err == nil {
						_, err = response.Body.Read(buffer)
					}
					_ = response.Body.Close()
				}
			})
		})
	}
}

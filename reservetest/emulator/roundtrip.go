package emulator

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// RoundTripper returns a transport whose requests go to a handler, whatever their address, without
// connections. So it works in a bubble of [testing/synctest]. The response comes with its first
// byte, and its body as the handler writes it. When the body is closed or the request's context
// ends, the context of the handler ends.
func RoundTripper(h http.Handler) http.RoundTripper { return direct{h} }

type direct struct{ handler http.Handler }

// RoundTrip passes a request to the handler.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in, err := arrived(r.WithContext(ctx))
	if err != nil {
		cancel()
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	from, to := io.Pipe()
	w := &response{header: http.Header{}, body: to, begun: make(chan struct{})}
	go func() {
		defer func() {
			_ = in.Body.Close()
			var end error
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // panics carry this very value
					panic(p)
				}
				end = io.ErrUnexpectedEOF
			}
			w.WriteHeader(http.StatusOK)
			_ = to.CloseWithError(end)
		}()
		d.handler.ServeHTTP(w, in)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		cancel()
		_ = from.CloseWithError(ctx.Err())
		return nil, r.Context().Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = to.CloseWithError(ctx.Err()) })
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Header: w.sent, Request: r, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: closes{from, func() { stop(); cancel() }},
	}, nil
}

// closes ends the handler's context when the body is closed.
type closes struct {
	*io.PipeReader
	cancel func()
}

func (c closes) Close() error {
	defer c.cancel()
	return c.PipeReader.Close()
}

// arrived returns a request as its server sees it. It fails if the context has ended.
func arrived(r *http.Request) (*http.Request, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.Host = cmp.Or(r.Host, r.URL.Host)
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "192.0.2.1:1234" // an address for documentation (RFC 5737)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	var err error
	in.URL, err = url.ParseRequestURI(in.RequestURI)
	return in, err
}

// response is what a handler writes to.
type response struct {
	once   sync.Once
	header http.Header
	sent   http.Header // the header when the response began
	status int
	body   *io.PipeWriter
	begun  chan struct{}
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *response) Flush() { w.WriteHeader(http.StatusOK) }

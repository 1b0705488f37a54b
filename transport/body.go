package transport

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/transport/bodies"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// hold returns a body that calls end once: when it is read to its end, when it fails, or when it is closed. A body
// that can also be written to, as after a change of protocol, stays writable.
func hold(body io.ReadCloser, scan *bodies.Scanner, zipped bool, early, end func()) io.ReadCloser {
	h := &held{ReadCloser: body, scan: scan, early: early, end: end}
	if scan != nil && zipped {
		h.unzip = newUnzip(scan)
	}
	if w, ok := body.(io.Writer); ok {
		return heldWriter{h, w}
	}
	return h
}

// held is the body of a response. It passes all bytes on as they come, and shows them to a scanner.
type held struct {
	io.ReadCloser
	early func()    // called when the prompt is known before the end, and then once in a while; nil: nobody wants to know
	next  time.Time // when early is called next
	end   func()
	scan  *bodies.Scanner // nil: nobody wants to know
	unzip *unzip          // between the body and the scanner, if the body is compressed

	mu    sync.Mutex // Close may be called during a Read
	ended bool
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 && h.scan != nil {
		h.mu.Lock()
		if !h.ended && h.shows(p[:n]) && h.early != nil {
			if now := time.Now(); !now.Before(h.next) {
				h.next = now.Add(earlyEvery)
				h.tellsEarly()
			}
		}
		h.mu.Unlock()
	}
	if err != nil {
		h.over(err == io.EOF) //nolint:errorlint // readers return this very value
	}
	return n, err
}

// earlyEvery is how often a stream is settled while it comes.
const earlyEvery = time.Second

// tellsEarly calls early. The scanner does not change meanwhile.
func (h *held) tellsEarly() {
	if h.unzip != nil {
		h.unzip.mu.Lock()
		defer h.unzip.mu.Unlock()
	}
	h.early()
}

// shows shows bytes to the scanner, and reports whether it knows the prompt. It may know that of a compressed body only
// when more bytes come.
func (h *held) shows(p []byte) (knows bool) {
	if h.unzip != nil {
		h.unzip.write(p)
		h.unzip.mu.Lock()
		defer h.unzip.mu.Unlock()
	} else {
		_, _ = h.scan.Write(p)
	}
	return h.scan.Knows()
}

func (h *held) Close() error {
	defer h.over(false)
	return h.ReadCloser.Close()
}

// over ends the body. It is whole if it was read to its end.
func (h *held) over(whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	if h.unzip != nil {
		h.unzip.close()
	}
	if h.scan != nil {
		h.scan.End(whole)
	}
	h.end()
}

type heldWriter struct {
	*held
	io.Writer
}

// unzip decompresses what a body brings. Where the bytes are broken, the scanner gets no more of them.
type unzip struct {
	mu   sync.Mutex
	scan *bodies.Scanner // guarded by mu until close
	to   *io.PipeWriter
	done chan struct{}
}

func newUnzip(scan *bodies.Scanner) *unzip {
	from, to := io.Pipe()
	u := &unzip{scan: scan, to: to, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		z, err := gzip.NewReader(from)
		if err == nil {
			_, err = io.Copy(u, z)
		}
		_ = from.CloseWithError(err) // later bytes go nowhere
		_, _ = io.Copy(io.Discard, from)
	}()
	return u
}

func (u *unzip) write(p []byte) { _, _ = u.to.Write(p) }

// Write gets the decompressed bytes.
func (u *unzip) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.scan.Write(p)
}

// close waits until the scanner has all bytes.
func (u *unzip) close() {
	_ = u.to.Close()
	<-u.done
}

// scanner returns the scanner of a response, or nil if nobody wants to know what its body says.
func (t *Transport) scanner(response *http.Response, c *call) (scan *bodies.Scanner, zipped bool) {
	if t.config.API == "" && (t.config.Tokens == nil || !c.settles) {
		return nil, false
	}
	return bodies.NewScanner(response.Header), strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip")
}

// early returns what to call when a stream has stated its prompt, and then again, or nil. After the first call, numbers
// that are no higher than what the limits count may still grow: they are not settled.
func (t *Transport) early(s sent, scan *bodies.Scanner) func() {
	if t.config.Early == nil || scan == nil || s.turn == nil || s.StatusCode >= http.StatusBadRequest {
		return nil
	}
	again := false
	return func() {
		used := t.config.Early(s.Response, scan.Usage())
		if again && len(used) > 0 {
			used = slices.Clone(used)
			for i, charged := range s.turn.Charged() {
				if i < len(used) && used[i] <= charged {
					used[i] = -1
				}
			}
			if slices.Max(used) < 0 {
				return
			}
		}
		again = true
		t.settle(s, used)
	}
}

// bodyOver releases the slots of a call whose body has ended, and takes in what the body said. The caller does not
// wait for it.
func (t *Transport) bodyOver(s sent, c *call, scan *bodies.Scanner) {
	s.release()
	var used []int
	var failure []byte
	var bucket []headers.Window
	if scan != nil {
		used, failure = t.tokens(s, scan.Usage()), scan.Failure()
		if holds, perSecond := scan.Bucket(); t.learner != nil && holds >= 1 && perSecond > 0 {
			bucket = []headers.Window{{Name: "points", Unit: headers.Requests, Limit: holds, Period: time.Duration(holds / perSecond * float64(time.Second)), Refills: true}}
		}
	}
	if t.config.API == "" || s.StatusCode >= http.StatusBadRequest {
		failure = nil // a refusal was read before
	}
	probed := s.turn != nil && s.turn.Probes() && failure == nil && s.StatusCode < http.StatusMultipleChoices
	t.settle(s, used)
	if failure == nil && bucket == nil && !probed {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Request.Context()), tellFor)
		defer cancel()
		if bucket != nil {
			t.learner.hear(ctx, c, bucket, no, true)
		}
		if failure != nil {
			t.hearFailure(ctx, s, c, failure)
		}
		if probed {
			t.probed(ctx, s, c)
		}
	}()
}

// tokens returns how many permits an attempt has used, by what its response says, and nil if its estimate stays.
func (t *Transport) tokens(s sent, u bodies.Usage) []int {
	if t.config.Tokens == nil || s.turn == nil {
		return nil
	}
	switch {
	case s.StatusCode >= http.StatusBadRequest:
		u = bodies.Usage{Complete: true}
	case !u.Known && !t.config.TokensUnstated:
		return nil
	}
	return t.config.Tokens(s.Response, u)
}

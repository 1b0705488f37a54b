package emulator

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Wire says what the emulator of a model provider answers, and how the bytes travel.
type Wire struct {
	// Answer says what the model answers to a call. Several goroutines call it at a time. Default:
	// the zero Answer.
	Answer func(Call) Answer

	// Split is the most bytes that are written at a time, so that events and letters arrive in
	// parts. 0: each event is written as a whole.
	Split int

	// Gzip compresses the responses to requests that accept gzip.
	Gzip bool

	// Every is the time between two events of a stream. Default 250 ms.
	Every time.Duration
}

func (w Wire) validate() error {
	switch {
	case w.Split < 0:
		return invalid("Wire.Split", "must be at least 1, or 0 for whole events, got %d", w.Split)
	case w.Every < 0:
		return invalid("Wire.Every", "must be positive, or 0 for 250ms, got %v", w.Every)
	}
	return nil
}

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("emulator: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// charge is an admitted call. Its methods take the provider's time.
type charge interface {
	start(now time.Time)              // the response begins
	produce(now time.Time, n float64) // tokens of the answer
	end(now time.Time)                // the provider is done with the call
}

// dialect is how a provider speaks. Each method returns bytes of a body.
type dialect interface {
	// admit judges a call. Exactly one of its results is nil.
	admit(now time.Time, c Call, a Answer) (charge, *refusal)
	headers(h http.Header, now time.Time, c Call, a Answer)
	refused(h http.Header, now time.Time, r *refusal) []byte
	whole(c Call, a Answer) []byte
	begin(c Call, a Answer) []byte
	delta(c Call, text string, produced int) []byte
	failed(c Call, word string) []byte
	end(c Call, a Answer) []byte
	// goesOn reports whether the provider continues to produce when the client has gone.
	goesOn() bool
	events() string // the content type of streams
}

// server serves one provider's requests.
type server struct {
	dialect
	wire Wire
}

const mostRead = 64 << 20 // bytes of a request

// ServeHTTP serves a request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostRead))
	if err != nil {
		return // the client has gone
	}
	c, err := callOf(r, body)
	if err != nil {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"the body is no JSON"}}`, http.StatusBadRequest)
		return
	}
	var a Answer
	if s.wire.Answer != nil {
		a = s.wire.Answer(c)
	}
	a = a.withDefaults(c)
	if !sleep(r.Context().Done(), a.Late) {
		return
	}
	now := time.Now()
	held, no := s.admit(now, c, a)
	s.headers(w.Header(), now, c, a)
	out := s.writer(w, r)
	defer out.close()
	if no != nil {
		w.Header().Set("Content-Type", "application/json")
		text := s.refused(w.Header(), now, no)
		w.WriteHeader(no.status)
		_ = out.write(text)
		return
	}
	s.answer(w, r, out, c, a, held)
}

// answer sends the response to an admitted call.
func (s *server) answer(w http.ResponseWriter, r *http.Request, out *writer, c Call, a Answer, held charge) {
	defer func() { held.end(time.Now()) }()
	gone := r.Context().Done()
	if s.goesOn() {
		gone = nil
	}
	sleep(gone, a.Wait)
	if !c.Stream {
		held.start(time.Now())
		sleep(gone, a.takes())
		held.produce(time.Now(), float64(a.Output))
		w.Header().Set("Content-Type", "application/json")
		_ = out.write(s.whole(c, a))
		return
	}
	w.Header().Set("Content-Type", s.events())
	held.start(time.Now())
	s.stream(gone, out, c, a, held)
}

// stream sends the events of a stream.
func (s *server) stream(gone <-chan struct{}, out *writer, c Call, a Answer, held charge) {
	err := out.write(s.begin(c, a))
	most := a.Output
	if a.Cut > 0 {
		most = int(float64(a.Output) * min(1, a.Cut))
	}
	step, every := a.Output, s.wire.Every
	if every == 0 {
		every = 250 * time.Millisecond
	}
	if a.PerSecond > 0 {
		step = max(1, int(a.PerSecond*every.Seconds()))
	}
	for done := 0; done < most; {
		n := min(step, most-done)
		if a.PerSecond > 0 && !sleep(gone, time.Duration(float64(n)/a.PerSecond*float64(time.Second))) {
			return
		}
		done += n
		held.produce(time.Now(), float64(n))
		if err == nil {
			err = out.write(s.delta(c, words(n), done))
		}
		if err != nil && !s.goesOn() {
			return
		}
	}
	switch {
	case err != nil:
	case a.Cut <= 0:
		_ = out.write(s.end(c, a))
	case a.Error != "":
		_ = out.write(s.failed(c, a.Error))
	case a.Reset:
		panic(http.ErrAbortHandler)
	}
}

// sleep waits. It reports false if the client went before that.
func sleep(gone <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	}
}

// writer sends bytes at once, in parts and compressed as Wire says.
type writer struct {
	http.ResponseWriter
	zip   *gzip.Writer
	split int
}

func (s *server) writer(w http.ResponseWriter, r *http.Request) *writer {
	out := &writer{ResponseWriter: w, split: s.wire.Split}
	if s.wire.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		out.zip = gzip.NewWriter(part{out})
	}
	return out
}

func (w *writer) write(p []byte) error {
	if w.zip == nil {
		return w.flush(p)
	}
	if _, err := w.zip.Write(p); err != nil {
		return err
	}
	return w.zip.Flush()
}

func (w *writer) flush(p []byte) error {
	for len(p) > 0 {
		n := len(p)
		if w.split > 0 {
			n = min(n, w.split)
		}
		if _, err := w.ResponseWriter.Write(p[:n]); err != nil {
			return err
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		p = p[n:]
	}
	return nil
}

func (w *writer) close() {
	if w.zip != nil {
		_ = w.zip.Close()
	}
}

// part is where compressed bytes go.
type part struct{ *writer }

func (p part) Write(b []byte) (int, error) { return len(b), p.flush(b) }

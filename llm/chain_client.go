package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Client returns an HTTP client whose requests go to the first Set whose turn comes within maxWait, as those of
// [Chained.Acquire] do. A request that finds the account of its Set used up goes to the next one, too.
//
// A Set counts tokens, and does not know the addresses, keys and models of the others. So prepare makes a request
// one for the Set of an index: it may change the URL, the Host, the header and the body, such as with [SetModel]. It
// gets a copy for each Set that is tried. nil: all Sets serve the same requests. The Sets must understand the same
// bodies, or prepare translates them; nobody translates responses.
//
// The base and the requests are those of [Set.Client]. A body that is neither JSON nor has [http.Request.GetBody] is
// offered to one Set.
func (c *Chained) Client(base *http.Client, maxWait time.Duration, prepare func(pick int, r *http.Request) error) *http.Client {
	of := http.Client{}
	if base != nil {
		of = *base
	}
	t := &chaining{chain: c, wait: maxWait, prepare: prepare}
	for _, set := range c.sets {
		t.sets = append(t.sets, set.Client(base).Transport)
	}
	of.Transport = t
	return &of
}

// SetModel replaces the model in the JSON body of a request. Other fields stay as they are.
func SetModel(r *http.Request, model string) error {
	if r.Body == nil {
		return fmt.Errorf("llm: %w request: has no body to set the model %q in", ErrInvalid, model)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return fmt.Errorf("llm: %w request: needs a JSON object as its body to set the model %q in", ErrInvalid, model)
	}
	fields["model"], _ = json.Marshal(model) // a string cannot fail
	if text, err = json.Marshal(fields); err != nil {
		return err
	}
	r.ContentLength = int64(len(text))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	r.Body, err = r.GetBody()
	return err
}

// chaining sends each request to a Set of a chain.
type chaining struct {
	chain   *Chained
	sets    []http.RoundTripper
	wait    time.Duration
	prepare func(int, *http.Request) error
}

func (t *chaining) RoundTrip(r *http.Request) (*http.Response, error) {
	r, err := readable(r)
	if err != nil {
		return nil, err
	}
	var response *http.Response // perhaps a refusal of a Set that is used up
	_, err = t.chain.choose(r.Context(), func(i int) (moves bool, err error) {
		next, moves, err := t.try(i, r)
		if next != nil {
			if response != nil {
				_ = response.Body.Close()
			}
			response = next
		}
		return moves && (r.Body == nil || r.GetBody != nil), err
	})
	if response != nil {
		return response, nil
	}
	return nil, err
}

// try sends a request to a Set. It reports whether another Set is to be tried. Then there is an error, and also a response
// if the provider has refused the request because the account is used up.
func (t *chaining) try(i int, r *http.Request) (*http.Response, bool, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &waiting{Context: ctx, until: time.Now().Add(t.wait)}
	w.timer = time.AfterFunc(t.wait, func() { cancel(context.DeadlineExceeded) })
	r = r.Clone(w)
	var err error
	if r.GetBody != nil {
		r.Body, err = r.GetBody()
	}
	if err == nil && t.prepare != nil {
		err = t.prepare(i, r)
	}
	var response *http.Response
	if err == nil {
		response, err = t.sets[i].RoundTrip(r)
	}
	w.timer.Stop()
	if err != nil {
		late := context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // the very one
		cancel(nil)
		if late {
			err = fmt.Errorf("llm: no turn within %v: %w", t.wait, context.DeadlineExceeded)
		}
		return nil, !w.sent.Load() && elsewhere(err), err
	}
	if _, writes := response.Body.(io.Writer); !writes {
		response.Body = endingBody{response.Body, cancel}
	}
	if response.Header.Get("X-Should-Retry") == "false" && t.chain.sets[i].usedUp(ctx) {
		return response, true, ErrExhausted
	}
	return response, false, nil
}

// usedUp reports whether a limit of the Set is stopped.
func (s *Set) usedUp(ctx context.Context) bool {
	states, _ := s.Limits().States(ctx) // without them, the caller gets the refusal
	return slices.ContainsFunc(states, func(state reserve.State) bool { return state.Stopped })
}

// waiting is a context that ends if the turn of a call does not come in time. When the call is sent, it has no such end.
type waiting struct {
	context.Context
	until time.Time
	timer *time.Timer
	sent  atomic.Bool
}

type waitingKey struct{}

func (w *waiting) Deadline() (time.Time, bool) {
	if d, ok := w.Context.Deadline(); w.sent.Load() || ok && d.Before(w.until) {
		return d, ok
	}
	return w.until, true
}

func (w *waiting) Value(key any) any {
	if key == (waitingKey{}) {
		return w
	}
	return w.Context.Value(key)
}

package example

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// AddressAPI is a paid API on the loopback interface. It checks postal addresses, takes its time,
// fails now and then, and refuses calls that come too early. It charges once per idempotency key.
type AddressAPI struct {
	URL      string
	Provider *provider.Provider
	server   *http.Server
	served   chan error

	mu       sync.Mutex
	attempts map[string]int // by idempotency key
	answers  map[string]json.RawMessage
	charges  map[string]int
}

const (
	maxRequest  = 1 << 20 // bytes
	failureRate = 0.02    // of calls, answered with 503
	fastest     = 20 * time.Millisecond
	slowest     = 60 * time.Millisecond
)

// StartAddresses starts the API with a limit of perSecond calls per second, for clients whose turns have
// the given burst.
//
// The provider has the rate of the turns, but a larger burst: 10 for turns with a burst of 1. Turns
// are exact when calls leave, but the network and both schedulers delay some calls more than
// others. So two calls that left 20 ms apart may arrive together. A provider without a larger burst
// would refuse the second one, and no client could prevent it. At high rates the same delays affect
// more calls, so the additional burst is at least what the rate allows in 100 ms.
func StartAddresses(perSecond float64, burst int) (*AddressAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo API: %w", err)
	}
	jitter := max(9, int(math.Ceil(perSecond*0.1)))
	d := &AddressAPI{
		URL:      fmt.Sprintf("http://%s/check", listener.Addr()),
		Provider: provider.New(provider.TokenBucket(perSecond, burst+jitter)),
		served:   make(chan error, 1),
		attempts: make(map[string]int),
		answers:  make(map[string]json.RawMessage),
		charges:  make(map[string]int),
	}
	mux := http.NewServeMux()
	mux.Handle("POST /check", d.Provider.Handler(http.HandlerFunc(d.check)))
	d.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { d.served <- d.server.Serve(listener) }()
	return d, nil
}

func (d *AddressAPI) Close() error {
	err := d.server.Close()
	if served := <-d.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Called returns how often the API was called with each idempotency key.
func (d *AddressAPI) Called() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.attempts)
}

// Charged returns how often each idempotency key was charged.
func (d *AddressAPI) Charged() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.charges)
}

func (d *AddressAPI) check(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return // the client went away
	}
	var a address
	if err := json.Unmarshal(body, &a); err != nil {
		reply(w, http.StatusBadRequest, problem("want a JSON object: "+err.Error()))
		return
	}
	if field := a.missing(); field != "" {
		reply(w, http.StatusUnprocessableEntity, problem("field "+field+" is empty"))
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		reply(w, http.StatusBadRequest, problem("header Idempotency-Key is missing"))
		return
	}

	d.mu.Lock()
	d.attempts[key]++
	luck, latency := fate(key, d.attempts[key])
	d.mu.Unlock()

	time.Sleep(latency) // the work that is paid for
	// Half of the failures happen before the charge and half after it. After it, the response is
	// lost, and only the key keeps the caller from paying again.
	if luck < failureRate/2 {
		reply(w, http.StatusServiceUnavailable, problem("try again"))
		return
	}
	answer := d.charge(key, a)
	if luck < failureRate {
		reply(w, http.StatusServiceUnavailable, problem("try again, the answer was lost"))
		return
	}
	reply(w, http.StatusOK, answer)
}

// charge returns the answer for a key, and charges for it the first time.
func (d *AddressAPI) charge(key string, a address) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if answer, ok := d.answers[key]; ok {
		return answer
	}
	d.charges[key]++
	answer, _ := json.Marshal(a.verdict()) // strings and a bool: cannot fail
	d.answers[key] = answer
	return answer
}

// FailsFirst reports whether the first call with an idempotency key fails.
func FailsFirst(key string) bool {
	luck, _ := fate(key, 1)
	return luck < failureRate
}

// fate returns how lucky a call is, from 0 to 1, and how long it takes. It depends on key and
// attempt alone, so every run of the demo is the same.
func fate(key string, attempt int) (luck float64, latency time.Duration) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s#%d", key, attempt) // never fails
	// FNV gives similar values to keys that differ in one digit, so mix once more.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	luck = float64(x>>11) / (1 << 53)
	latency = fastest + time.Duration(x%uint64(slowest-fastest))
	return luck, latency
}

func reply(w http.ResponseWriter, code int, body json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may have gone away
}

func problem(text string) json.RawMessage {
	body, _ := json.Marshal(map[string]string{"error": text}) // cannot fail
	return body
}

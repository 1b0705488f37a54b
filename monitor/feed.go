package monitor

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

const (
	every   = time.Second
	linger  = 2 * time.Minute // how long the feed continues without viewers, to have the history when one returns
	history = 180             // how many rates, in calls per second, are remembered for each limit
	keys    = 8               // the most keys of each limit whose states are read
	patient = 5 * time.Second // the longest that one reading may take
)

// snapshot is one reading of the fleet's state.
type snapshot struct {
	At    int64        `json:"at"` // Unix time in milliseconds
	Error string       `json:"error,omitempty"`
	Lines []fleet.Line `json:"limits"`

	text []byte // the same as JSON
}

// feed reads the state of the fleet once a second while somebody views it, for all viewers
// together.
type feed struct {
	reader *fleet.Reader
	log    *slog.Logger
	life   context.Context
	end    context.CancelFunc
	busy   sync.WaitGroup

	mu      sync.Mutex
	running bool
	wanted  time.Time     // until when it continues
	last    *snapshot     // nil: no reading yet
	news    chan struct{} // closed by the next reading
	past    map[string][]float64
	rates   fleet.Rates
}

func newFeed(reader *fleet.Reader, log *slog.Logger) *feed {
	f := &feed{reader: reader, log: log, news: make(chan struct{}), past: map[string][]float64{}}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

func (f *feed) close() {
	f.end()
	f.busy.Wait()
}

// want keeps the feed running for a while. It returns the last reading, and a channel that the next
// one closes. The last reading is nil if the feed has just started.
func (f *feed) want() (last *snapshot, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = time.Now().Add(linger)
	if !f.running && f.life.Err() == nil {
		f.running, f.last = true, nil
		clear(f.past) // the rates since then are unknown
		f.busy.Go(f.run)
	}
	return f.last, f.news
}

// first returns the last reading. If there is no reading yet, it waits for the first one.
func (f *feed) first(ctx context.Context) *snapshot {
	for {
		last, news := f.want()
		if last != nil {
			return last
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &snapshot{Error: ctx.Err().Error()}
		case <-f.life.Done():
			return &snapshot{Error: "the page is closed"}
		}
	}
}

func (f *feed) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		f.look()
		select {
		case <-tick.C:
		case <-f.life.Done():
			return
		}
		f.mu.Lock()
		over := time.Now().After(f.wanted)
		if over {
			f.running = false
		}
		f.mu.Unlock()
		if over {
			return
		}
	}
}

// look reads the state of the fleet, and wakes the viewers that wait for it.
func (f *feed) look() {
	ctx, cancel := context.WithTimeout(f.life, patient)
	defer cancel()
	s := &snapshot{At: time.Now().UnixMilli()}
	var err error
	if s.Lines, err = f.reader.Lines(ctx, keys, &f.rates); err != nil && f.life.Err() == nil {
		f.log.Warn("fleetpace: the page could not be refreshed", "error", err)
		s.Error = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.last != nil {
		s.Lines = f.last.Lines // show the last known state
	}
	if s.Lines == nil {
		s.Lines = []fleet.Line{}
	}
	if err == nil {
		f.remember(s.Lines)
	}
	s.text, _ = json.Marshal(s) // never fails
	f.last = s
	close(f.news)
	f.news = make(chan struct{})
}

// remember adds the calls per second of each limit to the history. The feed must be locked.
func (f *feed) remember(lines []fleet.Line) {
	past := make(map[string][]float64, len(lines))
	for i := range lines {
		id := lines[i].ID()
		values := append(f.past[id], lines[i].PerSecond)
		past[id] = values[max(0, len(values)-history):]
	}
	f.past = past
}

// before returns the history of all limits, or of one, as JSON.
func (f *feed) before(id string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	past := f.past
	if id != "" {
		past = map[string][]float64{id: f.past[id]}
	}
	text, _ := json.Marshal(past)
	return text
}

package monitor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/fleet"
)

const (
	every   = time.Second
	linger  = 2 * time.Minute // how long after the last viewer the feed still reads once a second
	keys    = 8               // the most keys of each limit whose states are read
	patient = 5 * time.Second // the longest that one reading may take
)

// snapshot is one reading of the fleet's state.
type snapshot struct {
	At    time.Time
	Away  bool          // the error says that Redis does not answer
	Known time.Time     // the last one at which Redis answered; zero: it did not yet
	Took  time.Duration // a round trip to Redis
	Error string
	Lines []fleet.Line

	past, day map[string][]moment // the last hour, and the last day
}

// feed reads the state of the fleet for all viewers together: once a second while somebody views it, and once in
// each span of the history otherwise.
type feed struct {
	reader *fleet.Reader
	log    *slog.Logger
	life   context.Context
	end    context.CancelFunc
	busy   sync.WaitGroup
	hurry  chan struct{} // a viewer has come

	mu     sync.Mutex
	wanted time.Time     // until when it reads once a second
	last   *snapshot     // nil: no reading yet
	stale  bool          // a viewer has come since the last reading, after a time without one
	news   chan struct{} // closed by the next reading
	rates  fleet.Rates
}

func newFeed(reader *fleet.Reader, log *slog.Logger) *feed {
	f := &feed{reader: reader, log: log, news: make(chan struct{}), hurry: make(chan struct{}, 1)}
	f.life, f.end = context.WithCancel(context.Background())
	f.busy.Go(f.run)
	return f
}

func (f *feed) close() {
	f.end()
	f.busy.Wait()
}

// want makes the feed read once a second for a while. It returns the last reading, and a channel that the next one
// closes. The last reading is nil if it is old, if nobody viewed the feed then, or if the feed has not read yet.
func (f *feed) want() (last *snapshot, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.After(f.wanted) {
		f.stale = true
		select {
		case f.hurry <- struct{}{}:
		default:
		}
	}
	f.wanted = now.Add(linger)
	if f.last == nil || f.stale || now.Sub(f.last.At) > 2*patient {
		return nil, f.news
	}
	return f.last, f.news
}

// first returns the last reading. If that is old, or if the feed has not read yet, it waits for the next one.
func (f *feed) first(ctx context.Context) *snapshot {
	for {
		last, news := f.want()
		if last != nil {
			return last
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &snapshot{At: time.Now(), Error: ctx.Err().Error()}
		case <-f.life.Done():
			return &snapshot{At: time.Now(), Error: "the page is closed"}
		}
	}
}

func (f *feed) run() {
	for {
		f.look()
		f.mu.Lock()
		pause := step
		if time.Now().Before(f.wanted) {
			pause = every
		}
		f.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-f.hurry:
		case <-f.life.Done():
			return
		}
	}
}

// look reads the state of the fleet, and wakes the viewers that wait for it.
func (f *feed) look() {
	ctx, cancel := context.WithTimeout(f.life, patient)
	defer cancel()
	s := &snapshot{}
	var err error
	if s.Took, err = f.reader.Trip(ctx); err == nil {
		s.Lines, err = f.reader.Lines(ctx, keys, &f.rates)
	}
	s.At = time.Now()
	if err != nil && f.life.Err() == nil {
		f.log.Warn("fleetpace: the page could not be refreshed", "error", err)
		s.Error, s.Away = err.Error(), fleet.IsAway(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		s.past, s.day = f.last.past, f.last.day
	}
	if err == nil {
		s.Known = s.At
		s.past, s.day = remember(s.past, s.Lines, step, s.At), remember(s.day, s.Lines, long, s.At)
	} else if f.last != nil {
		s.Lines, s.Known = f.last.Lines, f.last.Known // show the last known state
	}
	f.last, f.stale = s, false
	close(f.news)
	f.news = make(chan struct{})
}

// line returns the line of a limit.
func (s *snapshot) line(id string) *fleet.Line {
	if i := slices.IndexFunc(s.Lines, func(l fleet.Line) bool { return l.ID() == id }); i >= 0 {
		return &s.Lines[i]
	}
	return &fleet.Line{}
}

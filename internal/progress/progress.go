// Package progress shows how far a job is: a bar on a terminal, plain lines
// elsewhere, with rate and ETA in both.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	lineEvery   = 2 * time.Second        // in a log
)

// Bar is a live display. Set and Describe only note what to show next, so they
// may be called as often as you like; all methods are safe for concurrent use.
type Bar struct {
	w        io.Writer
	terminal *progressbar.ProgressBar // nil: plain lines
	stop     chan struct{}
	stopped  chan struct{}
	once     sync.Once

	mu sync.Mutex
	at state
}

// New shows live progress on w: a bar when w is a terminal, else one plain line
// every 2 s and one at Close. A negative total means that it is unknown. What is
// done at the first Set counts as done before (a resumed job), so it does not
// flatter the rate. Close the bar before anything else is written to w.
func New(w *os.File, title string, total int) *Bar {
	terminal := isatty.IsTerminal(w.Fd()) && os.Getenv("TERM") != "dumb"
	return start(w, terminal, title, total)
}

func start(w io.Writer, terminal bool, title string, total int) *Bar {
	b := &Bar{
		w:       w,
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		at:      state{title: title, total: total, began: time.Now()},
	}
	every := lineEvery
	if terminal {
		every = redrawEvery
		b.terminal = newTerminal(w, total)
		b.show()
	}
	go b.run(every)
	return b
}

func newTerminal(w io.Writer, total int) *progressbar.ProgressBar {
	if total == 0 {
		total = -1 // a bar of no length is refused; a spinner will do
	}
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "▕", BarEnd: "▏"}),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetPredictTime(false), // ours knows about resumed jobs
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetSpinnerChangeInterval(0), // else it starts a goroutine that never ends
	)
}

// Set notes how much is done in all, including what a resumed job had done
// before.
func (b *Bar) Set(done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at.set(done, time.Now())
}

// Describe notes a few words that are shown behind the numbers.
func (b *Bar) Describe(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at.description = s
}

// Close shows the last state and ends the display. Closing twice does no harm.
func (b *Bar) Close() {
	b.once.Do(func() {
		close(b.stop)
		<-b.stopped
		b.show()
		if b.terminal != nil {
			b.write("\n")
		}
	})
}

func (b *Bar) run(every time.Duration) {
	defer close(b.stopped)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			b.show()
		}
	}
}

func (b *Bar) show() {
	b.mu.Lock()
	at := b.at
	b.mu.Unlock()

	line := at.line(time.Now())
	if b.terminal == nil {
		b.write(line + "\n")
		return
	}
	if at.total > 0 {
		_ = b.terminal.Set(min(at.done, at.total))
	}
	b.terminal.Describe(line)
}

// write ignores errors: a job must not fail because nobody watches.
func (b *Bar) write(s string) { _, _ = fmt.Fprint(b.w, s) }

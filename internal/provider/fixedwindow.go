package provider

import "time"

// FixedWindow allows n permits in each window of the given length. Windows start at multiples of
// their length since the zero time, in UTC, so a window of a minute starts on the minute.
func FixedWindow(n int, window time.Duration) Rule {
	checkWindow("FixedWindow", n, window)
	return Rule{start: func(first time.Time) state {
		return &fixedWindow{
			limit:  n,
			window: window,
			offset: first.Sub(first.Truncate(window)),
		}
	}}
}

type fixedWindow struct {
	limit  int
	window time.Duration
	offset time.Duration // from the start of the first window to the first call
	index  int64         // the window in which used counts
	used   int
}

func (w *fixedWindow) wait(at time.Duration, n int) time.Duration {
	if n > w.limit {
		return Never
	}
	if w.indexAt(at) != w.index || w.used+n <= w.limit {
		return 0
	}
	return w.window - (at+w.offset)%w.window
}

func (w *fixedWindow) take(at time.Duration, n int) {
	if i := w.indexAt(at); i != w.index {
		w.index, w.used = i, 0
	}
	w.used += n
}

func (w *fixedWindow) indexAt(at time.Duration) int64 {
	return int64((at + w.offset) / w.window)
}

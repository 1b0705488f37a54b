package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// state is what a display shows.
type state struct {
	title       string
	description string
	total       int // negative: unknown
	done        int
	started     bool      // done was set once
	before      int       // done at the first Set
	began       time.Time // rates are measured from here
}

func (s *state) set(done int, now time.Time) {
	s.done = done
	if !s.started {
		s.started, s.before, s.began = true, done, now
	}
}

// line is the state in words, such as "batch: 120/500, 49.8/s, 8s left, 3 retried".
func (s *state) line(now time.Time) string {
	parts := make([]string, 0, 4)
	if s.total >= 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", s.done, s.total))
	} else {
		parts = append(parts, strconv.Itoa(s.done))
	}
	elapsed := now.Sub(s.began)
	rate := 0.0
	if elapsed > 0 {
		rate = float64(s.done-s.before) / elapsed.Seconds()
	}
	if rate > 0 {
		parts = append(parts, strconv.FormatFloat(rate, 'f', decimals(rate), 64)+"/s")
	}
	switch left := s.total - s.done; {
	case rate > 0 && left > 0:
		eta := time.Duration(float64(left) / rate * float64(time.Second))
		parts = append(parts, eta.Round(time.Second).String()+" left")
	default:
		parts = append(parts, elapsed.Round(time.Second).String())
	}
	if s.description != "" {
		parts = append(parts, s.description)
	}
	return s.title + ": " + strings.Join(parts, ", ")
}

// decimals keeps about three significant digits.
func decimals(rate float64) int {
	switch {
	case rate >= 100:
		return 0
	case rate >= 1:
		return 1
	default:
		return 3
	}
}

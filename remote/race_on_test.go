//go:build race

package remote_test

// raceDetector: pools forget some of what they keep, so that more is allocated.
const raceDetector = true

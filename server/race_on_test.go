//go:build race

package server_test

// raceDetector: pools forget some of what they keep, so that more is allocated.
const raceDetector = true

//go:build race

package reserve_test

// raceDetector: everything is about ten times slower.
const raceDetector = true

//go:build race

package adaptive_test

// raceDetector: everything is about ten times slower.
const raceDetector = true

//go:build race

package lua

// raceDetector says that the tests run under the race detector, which makes
// miniredis several times slower.
const raceDetector = true

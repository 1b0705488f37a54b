//go:build !race

package reserve_test

const raceDetector = false

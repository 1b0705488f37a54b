//go:build !race

package asker_test

const raceDetector = false

//go:build !race

package world

const raceDetector = false

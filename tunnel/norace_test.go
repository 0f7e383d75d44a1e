//go:build !race

package tunnel

const raceDetector = false

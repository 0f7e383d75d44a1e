//go:build race

package tunnel

// raceDetector: see needsLibrary.
const raceDetector = true

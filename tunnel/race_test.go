//go:build race

package tunnel

// raceDetector leaves out what closes a connection under a paused write: the library
// marks a connection closed without the lock under which its Write looks at the mark.
const raceDetector = true

// Package supervise runs one command below a process of its own that outlives the
// agent which started it: it records what the command prints and how it ended, so that
// a restarted agent finds out instead of running the command a second time.
package supervise

// Supervise is the whole life of a supervisor process: it runs the command described in
// dir and returns the exit code for the process.
func Supervise(dir string) int { return 1 }

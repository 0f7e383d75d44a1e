package live

import (
	"time"

	"golang.org/x/sys/unix"
)

// used are the processors' time that the process has taken, and that of this thread.
func used() (process, thread time.Duration) {
	var all, own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &all) // both are always there
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &own)
	return time.Duration(all.Utime.Nano() + all.Stime.Nano()), time.Duration(own.Utime.Nano() + own.Stime.Nano())
}

// What the process takes from itself before it reads anything.

package commands

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostMemory ends a process that the limit of Go's memory has not held, in bytes.
const mostMemory = 1 << 30

// confine bounds memory, keeps the process from writing files, from leaving a core and from being looked into by another
// line's, gives way to the server, and has the kernel end it before the server where memory runs out. All of it is beside
// the user and the namespaces that it was started with; where the kernel refuses something the rest still holds.
func confine() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	for resource, most := range map[int]uint64{syscall.RLIMIT_FSIZE: 0, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_DATA: mostMemory} {
		_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5)
}

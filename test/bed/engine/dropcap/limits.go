package dropcap

// What this process may pass on, read from the kernel.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// rlimits gives the kernel's numbers for the OCI names; they are the same on every architecture drover is built for.
func rlimits() map[string]int {
	return map[string]int{
		"RLIMIT_CPU": 0, "RLIMIT_FSIZE": 1, "RLIMIT_DATA": 2, "RLIMIT_STACK": 3, "RLIMIT_CORE": 4, "RLIMIT_RSS": 5,
		"RLIMIT_NPROC": 6, "RLIMIT_NOFILE": 7, "RLIMIT_MEMLOCK": 8, "RLIMIT_AS": 9, "RLIMIT_LOCKS": 10,
		"RLIMIT_SIGPENDING": 11, "RLIMIT_MSGQUEUE": 12, "RLIMIT_NICE": 13, "RLIMIT_RTPRIO": 14, "RLIMIT_RTTIME": 15,
	}
}

// CurrentLimits are the limits of the calling process.
func CurrentLimits() (Limits, error) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return Limits{}, fmt.Errorf("read the OOM score adjustment: %w", err)
	}
	score, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return Limits{}, fmt.Errorf("parse the OOM score adjustment: %w", err)
	}
	numbers := rlimits()
	hard := func(name string) (uint64, bool) {
		number, known := numbers[name]
		var limit syscall.Rlimit
		if !known || syscall.Getrlimit(number, &limit) != nil {
			return 0, false
		}
		return limit.Max, true
	}
	return Limits{Hard: hard, OOMScoreAdj: score}, nil
}

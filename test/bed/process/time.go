package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime is what a process has used; with children, also what those used that have ended and been waited for.
func ProcessorTime(pid int, children bool) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	// The name, the only field that may hold blanks, ends with the last parenthesis.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	counted := fields[11:13] // user and system, counted from the field after the name
	if children {
		counted = fields[11:15]
	}
	var ticks int64
	for _, field := range counted {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	const ticksPerSecond = 100 // of every Linux that Go runs on
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

package dropcap

// Whether this machine withholds the capability.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// capSysResource is the bit of CAP_SYS_RESOURCE in the kernel's capability masks (linux/capability.h).
const capSysResource = 24

// Withheld reports whether the capability is missing from the bounding set of this process, which is the most its
// children, engines included, can have.
func Withheld() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("read the capability bounding set: %w", err)
	}
	set, err := boundingSet(status)
	if err != nil {
		return false, err
	}
	return set&(1<<capSysResource) == 0, nil
}

// boundingSet reads the CapBnd line of a /proc/PID/status.
func boundingSet(status []byte) (uint64, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), "CapBnd:")
		if !found {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("parse the capability bounding set: %w", err)
		}
		return set, nil
	}
	return 0, errors.New("the process status has no CapBnd line")
}

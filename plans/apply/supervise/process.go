// Distinguishing one process from another that got the same number later.

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Identity names one process of one boot of the host.
type Identity struct {
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks since boot (/proc/PID/stat field 22).
	Start uint64 `json:"start"`
	// Boot is the kernel's id of the boot.
	Boot string `json:"boot"`
}

// identify is the identity of the process with this number now.
func identify(pid int) (Identity, error) {
	stat, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	boot, err := Boot()
	return Identity{PID: pid, Start: stat.start, Boot: boot}, err
}

// Boot is the kernel's id of the host's present boot. The error says that the kernel's file cannot be read.
func Boot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// Alive says whether the supervisor of the command in dir still runs.
func Alive(dir string) bool {
	var id Identity
	return readJSON(filepath.Join(dir, identityFile), maxResultSize, &id) == nil && id.Alive()
}

// Alive says whether the process still runs. A process that ended and waits to be reaped does not.
func (id Identity) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	now, err := identify(id.PID)
	if err != nil || now != id {
		return false
	}
	stat, err := readStat(id.PID)
	return err == nil && stat.start == id.Start && stat.state != 'Z' && stat.state != 'X'
}

// stat is what we use of /proc/PID/stat.
type stat struct {
	state   byte
	session int
	start   uint64
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The second field is the command's name in parentheses, with anything inside.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	session, errSession := strconv.Atoi(string(fields[3]))
	start, errStart := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{state: fields[0][0], session: session, start: start}, errors.Join(errSession, errStart)
}

// KillLeftovers kills what a command left running whose supervisor died before it: the
// processes of the supervisor's session that have the entry env in their environment,
// which no process has that the command did not start. It returns how many there were.
func (id Identity) KillLeftovers(env string) int {
	if id.PID <= 0 || id.Alive() {
		return 0
	}
	if now, err := identify(id.PID); err == nil && now.Start != id.Start {
		return 0 // the number, and with it the session's, belongs to another process now
	}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	killed := 0
	for _, entry := range names {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err != nil || s.session != id.PID || s.state == 'Z' {
			continue
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !hasEntry(environ, env) {
			continue
		}
		if unix.Kill(pid, unix.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

func hasEntry(environ []byte, want string) bool {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == want {
			return true
		}
	}
	return false
}

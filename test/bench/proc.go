// What the kernel knows: memory and connections of a process, limits, the disk.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// memory is what a process has of the machine's memory, in bytes.
type memory struct {
	resident  int64 // VmRSS
	anonymous int64 // RssAnon, the part that is not a file's
	peak      int64 // VmHWM
}

func memoryOf(pid int) (m memory, err error) {
	path := filepath.Join("/proc", strconv.Itoa(pid), "status")
	text, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	fields := map[string]*int64{"VmRSS": &m.resident, "RssAnon": &m.anonymous, "VmHWM": &m.peak}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if into, ok := fields[name]; ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return m, fmt.Errorf("read %s: %w", path, err)
			}
			*into = n << 10
		}
	}
	if m.resident == 0 {
		return m, fmt.Errorf("%s has no VmRSS", path)
	}
	return m, nil
}

// connections counts the established TCP connections from a process to a port on this machine.
func connections(pid, port int) (int, error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return 0, err
	}
	var inodes []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				inodes = append(inodes, strings.TrimSuffix(inode, "]"))
			}
		}
	}
	count := 0
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			f := strings.Fields(lines.Text())
			const remote, state, inode, established = 2, 3, 9, "01"
			if len(f) > inode && f[state] == established && strings.HasSuffix(f[remote], fmt.Sprintf(":%04X", port)) && slices.Contains(inodes, f[inode]) {
				count++
			}
		}
	}
	return count, nil
}

// raiseFileLimit gives this process, and those that it starts, as many open files as may be.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("ask for the limit of open files: %w", err)
	}
	const plenty = 1 << 17
	if os.Geteuid() == 0 && limit.Max < plenty {
		more := syscall.Rlimit{Cur: plenty, Max: plenty}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
			return nil
		}
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}

// enoughFiles says whether n connections can be open in one process.
func enoughFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("ask for the limit of open files: %w", err)
	}
	if need := uint64(n) + 1000; limit.Cur < need {
		return fmt.Errorf("%d open files are allowed and about %d are needed: raise the limit with ulimit -Hn, or simulate fewer agents", limit.Cur, need)
	}
	return nil
}

// syncTime is the median time that a small write takes to be safe on the disk.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	block := make([]byte, 4<<10)
	for range 50 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// rest waits, unless the context ends.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until asks every few milliseconds until the answer is yes.
func until(ctx context.Context, limit time.Duration, what string, ok func() (bool, error)) error {
	return lookUntil(ctx, limit, 20*time.Millisecond, what, ok)
}

// lookUntil is until with its own distance between two questions.
func lookUntil(ctx context.Context, limit, every time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not happen within %s", what, limit))
	defer cancel()
	for {
		done, err := ok()
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if done {
			return nil
		}
		if rest(ctx, every) != nil {
			return context.Cause(ctx)
		}
	}
}

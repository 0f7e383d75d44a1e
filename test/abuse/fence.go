package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

// fence bounds the memory of the server: a memory cgroup, or, where none can be made, a
// watch over its resident memory that kills it.
type fence struct {
	group  string // its directory; empty for a watch
	memory int64
}

// confine puts a process into a memory cgroup of version 2 or 1.
func confine(pid int, memory int64) (fence, error) {
	for _, kind := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/unified", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		_ = os.WriteFile(filepath.Join(kind.parent, "cgroup.subtree_control"), []byte("+memory"), 0o644)
		group := filepath.Join(kind.parent, fmt.Sprintf("drover-abuse-%d-%d", os.Getpid(), pid))
		if _, err := os.Stat(filepath.Join(kind.parent, "cgroup.procs")); err != nil || os.Mkdir(group, 0o755) != nil {
			continue
		}
		f := fence{group: group, memory: memory}
		if _, err := os.Stat(filepath.Join(group, kind.limit)); err == nil &&
			os.WriteFile(filepath.Join(group, kind.limit), []byte(strconv.FormatInt(memory, 10)), 0o644) == nil &&
			os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644) == nil {
			return f, nil
		}
		f.remove()
	}
	return fence{memory: memory}, nil
}

// String says how the memory is bounded.
func (f fence) String() string {
	if f.group == "" {
		return fmt.Sprintf("no cgroup can be made here; the server is killed beyond %d MiB resident", f.memory>>20)
	}
	return fmt.Sprintf("cgroup %s with %d MiB", f.group, f.memory>>20)
}

func (f fence) remove() {
	if f.group != "" {
		_ = os.Remove(f.group) // its process has ended, or it stays
	}
}

// watch kills the server beyond the limit, where no cgroup does.
func (f fence) watch(ctx context.Context, p *process.Process) {
	if f.group != "" {
		return
	}
	go func() {
		for {
			if n, err := residentOf(p.PID()); err != nil || n > f.memory {
				_ = p.Kill() // it may have ended by itself
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-p.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

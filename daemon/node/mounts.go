// Mounts that containers share with the host: the kubelet's directories have to be on
// shared mounts, or Docker refuses to start it. On hosts whose init leaves mounts private
// a person has to change that at each boot.

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of /proc/PID/mountinfo.
type mount struct {
	point  string
	shared bool
}

// parseMounts reads a mountinfo; see proc_pid_mountinfo(5).
func parseMounts(text string) ([]mount, error) {
	var all []mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 7 {
			return nil, fmt.Errorf("mount table: line %d is not one of mountinfo", len(all)+1)
		}
		m := mount{point: unescape(f[4])}
		for _, optional := range f[6:] {
			if optional == "-" {
				break
			}
			m.shared = m.shared || strings.HasPrefix(optional, "shared:")
		}
		all = append(all, m)
	}
	return all, nil
}

// unescape undoes \040 and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// sharing is what has to be done so that a path is on a shared mount: bind it to itself,
// because it is not a mount of its own, and share it.
func sharing(all []mount, path string) (bind, share bool) {
	on := mount{}
	for _, m := range all { // of several at one point the last is on top
		if m.point == path || m.point == "/" || strings.HasPrefix(path, m.point+"/") {
			if len(m.point) >= len(on.point) {
				on = m
			}
		}
	}
	if on.shared {
		return false, false
	}
	return on.point != path, true
}

// shareMounts makes the host's mounts below paths shared and returns which it had to change.
func shareMounts(paths []string) (changed []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if os.Getpid() == 1 {
		return nil, errors.New("mounts cannot be made shared: the agent does not see the host's processes; run its container with --privileged and --pid=host")
	}
	err = onHostMounts("/proc/1/ns/mnt", func() error {
		var faults []error
		for _, path := range paths {
			did, err := shareMount(path)
			if err != nil {
				faults = append(faults, fmt.Errorf("make the mount of %s shared: %w", path, err))
			}
			if did {
				changed = append(changed, path)
			}
		}
		return errors.Join(faults...)
	})
	return changed, err
}

func shareMount(path string) (changed bool, err error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return false, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return false, err
	}
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, err
	}
	all, err := parseMounts(string(text))
	if err != nil {
		return false, err
	}
	bind, share := sharing(all, path)
	if bind {
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return false, fmt.Errorf("bind it to itself: %w", err)
		}
	}
	if share {
		return true, unix.Mount("", path, "", unix.MS_SHARED|unix.MS_REC, "")
	}
	return false, nil
}

// onHostMounts does something in another mount namespace, on a thread that ends with it.
func onHostMounts(namespace string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: no other goroutine may get this thread
		done <- enter(namespace, do)
	}()
	return <-done
}

func enter(namespace string, do func() error) error {
	fd, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look for the host's mounts at %s: %w; run the agent's container with --privileged and --pid=host", namespace, err)
	}
	defer unix.Close(fd)
	// A thread that shares its working directory with others cannot change namespaces.
	err = unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Setns(fd, unix.CLONE_NEWNS)
	}
	if err != nil {
		return fmt.Errorf("enter the host's mounts: %w; run the agent's container with --privileged and --pid=host", err)
	}
	return do()
}

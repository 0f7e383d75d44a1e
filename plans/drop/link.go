// Plans that are links: followed by hand, because the kernel does not say which directories it
// passed, and a user who can write one of those decides what root runs.

package drop

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links lead to one file at most, as in the kernel.
const maxLinks = 40

// checkLink follows a plan that is a symbolic link. It returns a *refusedError when others can
// write a directory on the way to the target; the target itself is checked when it is open. The
// directory of the plan is for the code that looks through it to check, see distrust.
func checkLink(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	// A ".." below is then the parent that the kernel takes.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	rest, err := os.Readlink(path)
	if err != nil {
		return err
	}
	for links := 1; rest != ""; {
		if filepath.IsAbs(rest) {
			dir = "/"
		}
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		switch name {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		next := filepath.Join(dir, name)
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		reason, err := entryOfOthers(dir, next, info)
		if err != nil {
			return err
		}
		if reason != "" {
			return &refusedError{"it is a link, and on the way to its target " + reason + "; or put the plan itself in place of the link"}
		}
		switch {
		case info.Mode()&fs.ModeSymlink == 0:
			dir = next
		case links == maxLinks:
			return &refusedError{fmt.Sprintf("it is a link that leads over more than %d others: put the plan itself in its place", maxLinks)}
		default:
			links++
			target, err := os.Readlink(next)
			if err != nil {
				return err
			}
			rest = strings.TrimSuffix(target+"/"+rest, "/")
		}
	}
	return nil
}

// entryOfOthers says why others could replace what a directory has under a name; empty: they
// cannot. In a directory with the sticky bit, as /tmp is one, no other user can replace what root owns.
func entryOfOthers(dir, path string, entry fs.FileInfo) (string, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if user := stranger(info); user != "" {
		return fmt.Sprintf("directory %s belongs to %s: chown root", dir, user), nil
	}
	if info.Mode().Perm()&0o022 == 0 {
		return "", nil
	}
	if info.Mode()&fs.ModeSticky == 0 {
		return fmt.Sprintf("directory %s has mode %04o, others than its owner can write it: chmod go-w", dir, info.Mode().Perm()), nil
	}
	if user := stranger(entry); user != "" {
		return fmt.Sprintf("%s, in a directory that everybody can write, belongs to %s: chown root", path, user), nil
	}
	return "", nil
}

// stranger names the owner of a file who is neither root nor the user that the agent runs as.
func stranger(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("user %d", st.Uid)
	}
	return ""
}

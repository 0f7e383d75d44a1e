// Package interlock is the two files by which an installer and the agent keep out of each other's way:
//
//	restart-pending      the installer is about to replace the agent: begin nothing new
//	applyinator-active   the agent is at work: the installer waits
//
// The agent puts up its own file before it looks for the installer's, and the installer
// does the same, so that never both go on.
package interlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	restartPending = "restart-pending"
	activeFile     = "applyinator-active"
)

// Patience is how long an installer that never comes back holds the agent up.
const Patience = 5 * time.Minute

// Interlock is the directory of both files. Its methods may be called at the same time.
type Interlock struct {
	dir   string
	now   func() time.Time
	mu    sync.Mutex
	users int
}

// New uses the directory dir; with an empty one there is no interlock.
func New(dir string, now func() time.Time) *Interlock { return &Interlock{dir: dir, now: now} }

// Installer is the installer's file.
func (k *Interlock) Installer() string { return filepath.Join(k.dir, restartPending) }

// Clear makes the directory and removes what an agent left that was killed at work. The errors are those of the file system.
func (k *Interlock) Clear() error {
	if k.dir == "" {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("make the interlock directory: %w", err)
	}
	if err := os.Remove(filepath.Join(k.dir, activeFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear the interlock: %w", err)
	}
	return nil
}

// Enter takes the interlock; ok is false while an installer is about to restart the agent.
// The file stays until each one who entered has left. The errors are those of the file system; nothing is taken then.
func (k *Interlock) Enter() (ok bool, err error) {
	if k.dir == "" {
		return true, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users == 0 {
		text := fmt.Sprintf("%s\npid %d\n", k.now().UTC().Format(time.UnixDate), os.Getpid())
		if err := os.WriteFile(filepath.Join(k.dir, activeFile), []byte(text), 0o600); err != nil {
			return false, fmt.Errorf("take the interlock: %w", err)
		}
	}
	pending, err := k.pending()
	if err != nil || pending {
		if k.users == 0 {
			err = errors.Join(err, k.Clear())
		}
		return false, err
	}
	k.users++
	return true, nil
}

// Leave gives the interlock back. The errors are those of Clear.
func (k *Interlock) Leave() error {
	if k.dir == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	return k.Clear()
}

// pending says whether an installer holds the agent up. The patience begins with the first
// look, which is noted in the file.
func (k *Interlock) pending() (bool, error) {
	path := k.Installer()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := k.now()
	first, owner := split(string(b))
	if !ended(owner) {
		since, err := time.ParseInLocation(time.UnixDate, first, time.Local)
		if err != nil || since.After(now.Add(Patience)) {
			return true, k.stamp(path, now, owner)
		}
		if now.Sub(since) < Patience {
			return true, nil
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, nil
}

// split takes the line with the installer's pid out of its file. Original installers have none.
func split(content string) (rest, owner string) {
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "pid ") {
			owner = line
		} else if rest == "" {
			rest = line
		}
	}
	return rest, owner
}

// ended says that the installer was killed before it could remove its file.
func ended(owner string) bool {
	pid, err := strconv.Atoi(strings.TrimPrefix(owner, "pid "))
	if err != nil || pid <= 0 {
		return false
	}
	_, err = os.Stat("/proc/" + strconv.Itoa(pid))
	return errors.Is(err, fs.ErrNotExist)
}

// stamp writes the time into the installer's file, but does not make it again when the
// installer has just removed it.
func (k *Interlock) stamp(path string, now time.Time, owner string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.TrimSpace(now.UTC().Format(time.UnixDate)+"\n"+owner) + "\n")
	return errors.Join(err, f.Close())
}

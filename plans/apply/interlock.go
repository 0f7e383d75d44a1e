// The two files by which an installer and the agent keep out of each other's way:
//
//	restart-pending      the installer is about to replace the agent: begin nothing new
//	applyinator-active   the agent is at work: the installer waits
//
// The agent puts up its own file before it looks for the installer's, and the installer
// does the same, so that never both go on.

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	restartPending = "restart-pending"
	activeFile     = "applyinator-active"
	// restartPatience is how long an installer that never comes back holds the agent up.
	restartPatience = 5 * time.Minute
	restartLook     = time.Second
)

// interlock is the directory of both files; an empty one is no interlock.
type interlock struct {
	dir   string
	now   func() time.Time
	mu    sync.Mutex
	users int
}

// clear removes what an agent left that was killed at work.
func (k *interlock) clear() error {
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

// enter takes the interlock; ok is false while an installer is about to restart the agent.
// The file stays until each one who entered has left.
func (k *interlock) enter() (ok bool, err error) {
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
			err = errors.Join(err, k.clear())
		}
		return false, err
	}
	k.users++
	return true, nil
}

func (k *interlock) leave() error {
	if k.dir == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	return k.clear()
}

// pending says whether an installer holds the agent up. The patience begins with the first
// look, which is noted in the file.
func (k *interlock) pending() (bool, error) {
	path := filepath.Join(k.dir, restartPending)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := k.now()
	since, err := time.ParseInLocation(time.UnixDate, strings.TrimSpace(string(b)), time.Local)
	if err != nil || since.After(now.Add(restartPatience)) {
		return true, k.stamp(path, now)
	}
	if now.Sub(since) < restartPatience {
		return true, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, nil
}

// stamp writes the time into the installer's file, but does not make it again when the
// installer has just removed it.
func (k *interlock) stamp(path string, now time.Time) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(now.UTC().Format(time.UnixDate) + "\n")
	return errors.Join(err, f.Close())
}

// enterWaiting takes the interlock as soon as no installer is in the way.
func (w *work) enterWaiting(ctx context.Context) (leave func(), err error) {
	wait := &waiter{e: w.Engine, source: w.d.Source}
	defer wait.over()
	for {
		ok, err := w.interlock.enter()
		if err != nil {
			return nil, err
		}
		if ok {
			return func() {
				if err := w.interlock.leave(); err != nil {
					w.log.Error("interlock cannot be given back, installers will wait for it", "error", err)
				}
			}, nil
		}
		wait.on(filepath.Join(w.InterlockDir, restartPending), "an installer is about to restart the agent",
			"goes on when the file is gone, at the latest after "+restartPatience.String())
		if err := backoff.Wait(ctx, restartLook); err != nil {
			return nil, err
		}
	}
}

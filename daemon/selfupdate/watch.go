// The judge: it looks, decides, acts, until the update has ended. It is the previous
// program in a unit of its own.

package selfupdate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
)

const (
	lookEvery = 250 * time.Millisecond
	unitDir   = "/etc/systemd/system"
)

// Watcher decides on the update of one directory.
type Watcher struct {
	// Dir is that of the update, see Dir.
	Dir    string
	Logger *slog.Logger
	Now    func() time.Time

	systemctl systemctl
	unitDir   string
	clock     func() (boot string, uptime float64, err error)
	every     time.Duration
	step      func(name string) error // before each change of the host; tests end the judge here

	in        Intent
	restarted bool
	sums      map[string]sum // of the programs, by path
}

// sum is a checksum that holds as long as the file is the same one, unchanged.
type sum struct {
	of  fs.FileInfo
	hex string
}

// checksum reads a program anew only when it has changed: it has megabytes, and is looked
// at several times a second.
func (w *Watcher) checksum(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if s, ok := w.sums[path]; ok && os.SameFile(s.of, info) && s.of.Size() == info.Size() && s.of.ModTime().Equal(info.ModTime()) {
		return s.hex, nil
	}
	hex, err := checksum(path)
	if err == nil {
		w.sums[path] = sum{info, hex}
	}
	return hex, err
}

func (w *Watcher) complete() {
	w.sums = map[string]sum{}
	if w.Logger == nil {
		w.Logger = slog.Default()
	}
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.systemctl == nil {
		w.systemctl = Systemctl
	}
	w.unitDir = cmp.Or(w.unitDir, unitDir)
	if w.clock == nil {
		w.clock = hostClock
	}
	w.every = cmp.Or(w.every, lookEvery)
	if w.step == nil {
		w.step = func(string) error { return nil }
	}
}

// Run decides, and returns when the update has ended and nothing is left of its unit. An
// error has it started again by systemd.
func (w *Watcher) Run(ctx context.Context) error {
	w.complete()
	there, err := readRecord(intentFile(w.Dir), &w.in)
	if err != nil {
		// It was written whole or not at all, so this is none of ours, and there is nothing to undo.
		w.Logger.Error("intent of an update cannot be read; nothing is changed", "error", err)
	}
	if !there || w.in.Schema != schema {
		return w.tidy(ctx)
	}
	if err := w.begin(); err != nil {
		return err
	}
	for {
		f, err := w.look(ctx)
		if err != nil {
			return err
		}
		ended, err := w.act(ctx, decide(w.in, f))
		if err != nil {
			return err
		}
		if ended {
			return w.tidy(ctx)
		}
		if err := backoff.Wait(ctx, w.every); err != nil {
			return err
		}
	}
}

// begin counts boots and begins the time anew in each.
func (w *Watcher) begin() error {
	boot, uptime, err := w.clock()
	if err != nil {
		return err
	}
	if w.in.Boot == boot {
		return nil
	}
	w.in.Boot = boot
	w.in.Boots++
	w.extend(uptime)
	return w.save()
}

// extend gives the whole time from now on.
func (w *Watcher) extend(uptime float64) {
	w.in.Until = uptime + float64(w.in.Within)
	w.in.Deadline = w.Now().Add(time.Duration(w.in.Within) * time.Second)
}

func (w *Watcher) save() error {
	if err := w.step("intent"); err != nil {
		return err
	}
	if err := durable.WriteJSON(intentFile(w.Dir), w.in, 0o600); err != nil {
		return fmt.Errorf("write down the update: %w", err)
	}
	return nil
}

func (w *Watcher) look(ctx context.Context) (f facts, err error) {
	if f.installed, err = w.checksum(w.in.Program); err != nil {
		return f, err
	}
	if f.staged, err = w.checksum(w.in.Staged); err != nil {
		return f, err
	}
	if f.unit, err = w.systemctl.show(ctx); err != nil {
		return f, err
	}
	boot, uptime, err := w.clock()
	if err != nil {
		return f, err
	}
	f.current = runs(f.unit.pid, w.in.Program)
	f.late = uptime >= w.in.Until
	f.restarted = w.restarted
	var h Health
	if ok, err := readRecord(healthFile(w.Dir), &h); err == nil && ok && h.Boot == boot {
		f.health = h
	}
	return f, nil
}

// runs says whether a process runs the program that is now at path.
func runs(pid int, path string) bool {
	if pid == 0 {
		return false
	}
	process, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return false
	}
	program, err := os.Stat(path)
	return err == nil && os.SameFile(process, program)
}

func (w *Watcher) act(ctx context.Context, d decision) (ended bool, err error) {
	if d.action == wait {
		return false, nil
	}
	if err := w.step(string(d.action)); err != nil {
		return false, err
	}
	log := w.Logger.With("from", w.in.OldVersion, "to", w.in.NewVersion)
	switch d.action {
	case swap:
		log.Info("update puts the new agent in place", "program", w.in.Program)
		err := os.Rename(w.in.Staged, w.in.Program)
		switch {
		case errors.Is(err, syscall.EBUSY):
			if err := w.inPlace(ctx, log, w.in.Staged); err != nil {
				return false, err
			}
		case err != nil:
			return false, fmt.Errorf("put the new agent in place: %w", err)
		}
		return false, durable.SyncDir(filepath.Dir(w.in.Program))
	case restart:
		w.restarted = true
		return false, w.systemctl.restart(ctx)
	case goBack:
		log.Error("update failed; the previous agent comes back", "reason", d.reason)
		return false, w.fail(d.reason)
	case restore:
		w.restarted = false
		err := copyProgram(w.in.Previous, w.in.Program)
		if errors.Is(err, syscall.EBUSY) {
			return false, w.inPlace(ctx, log, w.in.Previous)
		}
		return false, err
	}
	return true, w.end(log, d.reason)
}

// inPlace writes a program over the installed one, on which something is mounted, so that no other can take its place. A
// program that runs cannot be written. If the new one cannot be, the previous one comes back.
func (w *Watcher) inPlace(ctx context.Context, log *slog.Logger, from string) error {
	log.Warn("program is the place of a mount and cannot be replaced: the service is stopped and the program written in place; after a crash in the middle no agent runs until this unit goes on", "program", w.in.Program)
	w.in.InPlace = true
	if err := w.save(); err != nil {
		return err
	}
	_, err := w.systemctl(ctx, "stop", Service)
	if err == nil {
		err = w.step("write in place")
	}
	if err == nil {
		err = overwrite(from, w.in.Program, 0)
	}
	if err != nil && w.in.Back == "" {
		return w.fail(fmt.Sprintf("the new program cannot be written in place: %v", err))
	}
	return err
}

func (w *Watcher) fail(reason string) error {
	_, uptime, err := w.clock()
	if err != nil {
		return err
	}
	w.in.Back = reason
	w.extend(uptime)
	return w.save()
}

// end writes down what came of it, then gives up the intent.
func (w *Watcher) end(log *slog.Logger, reason string) error {
	last := Last{
		ID: w.in.ID, Ended: w.Now().UTC(), OldVersion: w.in.OldVersion, NewVersion: w.in.NewVersion,
		Updated: reason == "", Reason: reason,
	}
	if err := durable.WriteJSON(lastFile(w.Dir), last, 0o600); err != nil {
		return fmt.Errorf("write down how the update ended: %w", err)
	}
	if last.Updated {
		log.Info("update succeeded: the new agent is healthy")
	} else {
		log.Error("update was taken back", "reason", reason)
	}
	if err := w.step("forget the intent"); err != nil {
		return err
	}
	return removeAll(intentFile(w.Dir), w.in.Staged)
}

// tidy takes the unit away that this runs in.
func (w *Watcher) tidy(ctx context.Context) error {
	if err := w.step("remove the unit"); err != nil {
		return err
	}
	return w.systemctl.removeWatch(ctx, w.unitDir)
}

func hostClock() (boot string, uptime float64, err error) {
	if boot, err = BootID(); err != nil {
		return "", 0, err
	}
	b, err := durable.ReadFile("/proc/uptime", 100)
	if err != nil {
		return "", 0, fmt.Errorf("read the uptime: %w", err)
	}
	text, _, _ := strings.Cut(string(b), " ")
	if uptime, err = strconv.ParseFloat(text, 64); err != nil {
		return "", 0, fmt.Errorf("read the uptime: %w", err)
	}
	return boot, uptime, nil
}

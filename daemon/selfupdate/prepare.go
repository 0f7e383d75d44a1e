// The beginning of an update: the new program is got and checked, everything that may
// fail happens beside it, and the intent is the last thing that is written.

package selfupdate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
)

const (
	// DefaultWithin is how long a new agent may take to be healthy.
	DefaultWithin = 2 * time.Minute
	// MinWithin and MaxWithin are what a person may ask for instead.
	MinWithin, MaxWithin = 5 * time.Second, time.Hour
	// tryLimit bounds one call of the new program.
	tryLimit = 10 * time.Second
	// busyPause is how long a program that is still open for writing is left alone.
	busyPause = 10 * time.Millisecond
	// plainPath are the characters that mean nothing to systemd.
	plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._@+-"
)

// Request is what a person asks for.
type Request struct {
	// From is a file or a URL (https, http), Checksum its SHA-256 in hexadecimal.
	From, Checksum string
	// CAFile has the authorities of an https server; empty: the system's.
	CAFile string
	// Within is how long the new agent may take; 0 is DefaultWithin.
	Within time.Duration
}

// Updater begins updates.
type Updater struct {
	// Program is what the service runs, Version its version, Config its configuration and
	// Dir the directory of its updates.
	Program, Version, Config, Dir string
	Logger                        *slog.Logger
	Now                           func() time.Time

	systemctl systemctl
	unitDir   string
	every     time.Duration
	wait      func(context.Context, time.Duration) error // for a server that asks for it
}

// ErrSame says that the program is the one that runs already.
var ErrSame = errors.New("this is the program that is installed already; nothing was changed")

// Begin gets and checks the new program and hands the rest over to the deciding unit. After
// an error nothing has changed. The id is for Await.
func (u *Updater) Begin(ctx context.Context, r Request) (id string, err error) {
	u.complete()
	if err := u.check(&r); err != nil {
		return "", err
	}
	unlock, err := u.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	in, err := u.prepare(ctx, r)
	if err != nil {
		return "", errors.Join(err, removeAll(u.staged()))
	}
	if err := u.systemctl.addWatch(ctx, u.unitDir, in.Previous, u.Dir); err != nil {
		return "", fmt.Errorf("make the unit that decides on the update (nothing was changed): %w", err)
	}
	if err := durable.WriteJSON(intentFile(u.Dir), in, 0o600); err != nil {
		return "", fmt.Errorf("write down the update (nothing was changed): %w", err)
	}
	if _, err := u.systemctl(ctx, "restart", "--no-block", WatchService); err != nil {
		return "", errors.Join(fmt.Errorf("start the unit that decides on the update (nothing was changed): %w", err),
			removeAll(intentFile(u.Dir), u.staged()), u.systemctl.removeWatch(ctx, u.unitDir))
	}
	return in.ID, nil
}

func (u *Updater) complete() {
	if u.Logger == nil {
		u.Logger = slog.Default()
	}
	if u.Now == nil {
		u.Now = time.Now
	}
	if u.systemctl == nil {
		u.systemctl = Systemctl
	}
	u.unitDir = cmp.Or(u.unitDir, unitDir)
	u.every = cmp.Or(u.every, lookEvery)
	if u.wait == nil {
		u.wait = backoff.Wait
	}
}

func (u *Updater) staged() string { return u.Program + ".new" }

// check refuses what cannot be asked for.
func (u *Updater) check(r *Request) error {
	r.Within = cmp.Or(r.Within, DefaultWithin)
	r.Checksum = strings.ToLower(r.Checksum)
	if b, err := hex.DecodeString(r.Checksum); err != nil || len(b) != 32 {
		return fmt.Errorf("checksum %.80q is not a SHA-256 in hexadecimal", r.Checksum)
	}
	if r.Within < MinWithin || r.Within > MaxWithin {
		return fmt.Errorf("the time for the new agent is %s, but has to be between %s and %s", r.Within, MinWithin, MaxWithin)
	}
	for _, path := range []string{u.Program, u.Dir} {
		// They become words of a unit.
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(c rune) bool { return !strings.ContainsRune(plainPath, c) }) {
			return fmt.Errorf("the path %q has characters that cannot stand in a unit", path)
		}
	}
	return nil
}

// lock keeps other updates away until the intent of this one stands.
func (u *Updater) lock() (unlock func(), err error) {
	if err := os.MkdirAll(u.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of updates: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(u.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of updates: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another update is being prepared"), f.Close())
	}
	var in Intent
	there, err := readRecord(intentFile(u.Dir), &in)
	if there && err == nil {
		err = fmt.Errorf("an update to %s is under way since %s; see journalctl -u %s", in.NewVersion, in.Begun.Local().Format(time.DateTime), WatchService)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// prepare puts the new program and a copy of the old one in their places.
func (u *Updater) prepare(ctx context.Context, r Request) (Intent, error) {
	service, err := u.systemctl.show(ctx)
	if err != nil {
		return Intent{}, err
	}
	if service.pid != 0 && !runs(service.pid, u.Program) {
		return Intent{}, fmt.Errorf("%s does not run %s as it is now; call self-update of the program that it runs, or restart it first", Service, u.Program)
	}
	old, err := checksum(u.Program)
	if err != nil {
		return Intent{}, err
	}
	if old == r.Checksum {
		return Intent{}, ErrSame
	}
	if err := u.download(ctx, r, u.staged()); err != nil {
		return Intent{}, err
	}
	version, err := u.try(ctx)
	if err != nil {
		return Intent{}, fmt.Errorf("%s: %w", r.From, err)
	}
	if err := copyProgram(u.Program, u.Program+previousSuffix); err != nil {
		return Intent{}, err
	}
	now := u.Now()
	return Intent{
		Schema: schema, ID: rand.Text(), Begun: now.UTC(),
		Program: u.Program, Staged: u.staged(), Previous: u.Program + previousSuffix,
		Old: old, New: r.Checksum, OldVersion: u.Version, NewVersion: version,
		Connect: u.connected(service), Within: int(r.Within / time.Second),
	}, nil
}

// connected says whether the running agent has reached its server. Of an agent that does
// not report that it is taken to have; one that does not run has not.
func (u *Updater) connected(service unit) bool {
	if !service.running() {
		return false
	}
	var h Health
	if ok, err := readRecord(healthFile(u.Dir), &h); err != nil || !ok || h.PID != service.pid {
		return true
	}
	return h.Connected
}

// try looks at the new program and lets it say what it is.
func (u *Updater) try(ctx context.Context) (version string, err error) {
	if err := sameKind(u.staged(), u.Program); err != nil {
		return "", err
	}
	out, err := u.call(ctx, "version")
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(out), "rancher-system-agent version ")
	if !ok || strings.ContainsAny(version, "\n") || len(version) > 100 {
		return "", fmt.Errorf("it is no agent of drover: asked for its version it says %.100q", out)
	}
	if _, err := u.call(ctx, "validate-config", u.Config); err != nil {
		return "", err
	}
	return version, nil
}

func (u *Updater) call(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, u.staged(), args...)
		cmd.WaitDelay = time.Second
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		// A fork of this process may still have the file open that was just written.
		if errors.Is(err, syscall.ETXTBSY) && backoff.Wait(ctx, busyPause) == nil {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("the new program fails at %s: %w %.300s", args[0], err, strings.TrimSpace(stderr.String()))
		}
		return string(out), nil
	}
}

// sameKind compares what the two programs are made for: class, byte order and machine of
// the ELF header.
func sameKind(program, like string) error {
	a, err := elfKind(program)
	if err != nil {
		return err
	}
	b, err := elfKind(like)
	if err != nil {
		return err
	}
	if a != b {
		return errors.New("it is a program for another architecture than this host's")
	}
	return nil
}

func elfKind(path string) (kind [4]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return kind, err
	}
	defer f.Close()
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:4]) != "\x7fELF" {
		return kind, errors.New("it is not a program (ELF), perhaps a web page")
	}
	return [4]byte{head[4], head[5], head[18], head[19]}, nil
}

// Await waits for the end of an update. It returns the context's error, with where to look on, and that of a record that cannot be read.
func (u *Updater) Await(ctx context.Context, id string) (Last, error) {
	u.complete()
	for {
		last, ok, err := ReadLast(u.Dir)
		if err != nil {
			return Last{}, err
		}
		if ok && last.ID == id {
			return last, nil
		}
		if err := backoff.Wait(ctx, u.every); err != nil {
			return Last{}, fmt.Errorf("wait for the end of the update: %w; it goes on, see journalctl -u %s", err, WatchService)
		}
	}
}

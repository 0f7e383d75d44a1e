// Package drop takes plans from a directory: what is put there as
// *.plan or *.yaml is applied.
//
// Every regular file below the directory whose name ends in .plan and does not begin
// with a dot is a plan, also in hidden sub-directories; symbolic links to directories are
// not followed. A name that ends in .yaml or .yml is a plan, too, written in YAML, which
// the original does not know. Plans are applied one after another in the order of their
// paths. A file B.skip anywhere below the directory keeps every plan of the name B from
// being looked at. What is known of x.plan is beside it in x.pos, of x.yaml in
// x.yaml.position; removing that has the plan applied again. Since plans run as root, a
// plan is refused that others than the agent's own user could have written.
//
// Wire source: rancher/system-agent pkg/localplan.
package drop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/upkeep"
)

const (
	defaultSweep = time.Minute
	// sweepWithoutNotice is the distance of sweeps when the kernel gives no notifications, as
	// the original's.
	sweepWithoutNotice = 5 * time.Second
)

// Engine is what performs the plans; *apply.Engine is one.
type Engine interface {
	Apply(ctx context.Context, d apply.Delivery) (apply.Result, error)
	Sources() ([]string, error)
	Forget(source string) error
	RestoreFiles(ctx context.Context, s apply.Standing) (changed []string, err error)
	upkeep.Engine
}

var _ Engine = (*apply.Engine)(nil)

// Options are what a Source is made of. Dir and Engine are required.
type Options struct {
	Dir    string // watched with everything below it; made 0700 when missing
	Engine Engine
	// Sweep is the distance between two looks at the whole directory in case a
	// notification was lost; default one minute.
	Sweep  time.Duration
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // default time.Now
}

// Source applies the plans of one directory.
type Source struct {
	o Options

	// The goroutine of Run owns these.
	plans   map[string]*dropped    // by path
	watch   func(dir string) error // asks for notifications of a directory, again and again; nil: the kernel gives none
	readDir func(dir string) ([]fs.DirEntry, error)
	noted   map[string]string // what was logged last of a path
	settled bool              // what earlier lives left behind was looked through

	pulse *upkeep.Pulse

	mu     sync.Mutex
	status map[string]Status
}

// State is where a dropped plan stands.
type State string

// The states of a dropped plan.
const (
	Writing State = "being written"
	// Waiting plans begin when another one, which Reason names, has ended.
	Waiting  State = "waiting"
	Applying State = "applying"
	Applied  State = "applied"
	Failed   State = "failed" // and tried again at Next
	Refused  State = "refused"
	Skipped  State = "skipped"
	// Removed plans are gone from the directory; what they did is not undone.
	Removed State = "removed"
)

// Status is what is known of one dropped plan.
type Status struct {
	Path     string
	Checksum string // empty while it is not known
	State    State
	Reason   string    // of Failed, Refused and Waiting, and what is wrong with an Applied one
	Since    time.Time // when State and Reason became so
	Failures int       // in a row
	Next     time.Time // when a failed plan is tried again
}

// New makes a Source; Run does the work.
func New(o Options) *Source {
	if o.Sweep <= 0 {
		o.Sweep = defaultSweep
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{
		o: o, plans: map[string]*dropped{}, noted: map[string]string{}, status: map[string]Status{},
		readDir: os.ReadDir, pulse: upkeep.NewPulse(busyLimit, o.Now),
	}
}

// Status lists the plans in the directory, and those lately removed from it, by path.
func (s *Source) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, st := range s.status {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b Status) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return all
}

// Run watches and applies until the context ends. It returns an error only when the
// directory cannot be made. An instruction that runs at the end of the context goes on.
func (s *Source) Run(ctx context.Context) error {
	if err := s.directory(); err != nil {
		return err
	}
	sweep := s.o.Sweep
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.o.Logger.Warn("directory of plans cannot be watched, it is looked at again and again", "directory", s.o.Dir, "every", sweepWithoutNotice, "error", err)
		sweep = min(sweep, sweepWithoutNotice)
	}
	wake := make(chan struct{}, 1)
	var background sync.WaitGroup
	if watcher != nil {
		if s.watch == nil {
			s.watch = watcher.Add
		}
		background.Go(func() { s.listen(watcher, wake) })
	}
	defer func() {
		if watcher != nil {
			if err := watcher.Close(); err != nil {
				s.o.Logger.Debug("watcher does not close", "error", err)
			}
		}
		s.stopAll()
		background.Wait()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.pulse.End()
	for {
		s.pulse.Turn()
		select {
		case <-ctx.Done():
			return nil
		case <-s.pulse.Asked():
			continue
		case <-wake:
		case <-timer.C:
		}
		timer.Reset(min(s.round(ctx), sweep))
	}
}

// listen turns notifications into wake-ups until the watcher is closed.
func (s *Source) listen(w *fsnotify.Watcher, wake chan<- struct{}) {
	for {
		select {
		case event, ok := <-w.Events:
			if !ok {
				return
			}
			if !matters(event) {
				continue
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			s.o.Logger.Debug("notifications were lost", "error", err) // the look at everything makes up for it
		}
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// matters leaves out what this package itself writes: x.pos and what becomes it.
func matters(event fsnotify.Event) bool {
	switch filepath.Ext(event.Name) {
	case positionSuffix, ownPositionSuffix:
		return event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	case ".tmp":
		return false
	}
	return true
}

// directory makes the directory when it is missing. A link in its place is refused, as the
// original does not follow one either, but says nothing.
func (s *Source) directory() error {
	info, err := os.Lstat(s.o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(s.o.Dir), 0o755); err != nil {
			return fmt.Errorf("make the directory of plans: %w", err)
		}
		if err := os.Mkdir(s.o.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the directory of plans: %w", err)
		}
		s.o.Logger.Info("directory of plans made", "directory", s.o.Dir)
		return nil
	case err != nil:
		return fmt.Errorf("look at the directory of plans: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("directory of plans %s is a symbolic link, which is not followed: configure the directory itself", s.o.Dir)
	case !info.IsDir():
		return fmt.Errorf("directory of plans %s is not a directory", s.o.Dir)
	}
	return nil
}

// report keeps the status of a plan and logs it when it is news.
func (s *Source) report(st Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.status[st.Path]
	st.Since = before.Since
	if !known || before.State != st.State || before.Reason != st.Reason || before.Checksum != st.Checksum {
		st.Since = s.o.Now().UTC()
		log := s.o.Logger.With("path", st.Path)
		if st.Checksum != "" {
			log = log.With("plan", plans.Short(st.Checksum))
		}
		switch st.State {
		case Refused:
			log.Error("dropped plan is refused", "reason", st.Reason)
		case Failed:
			log.Error("dropped plan failed", "reason", st.Reason, "failures", st.Failures, "again", st.Next)
		case Waiting:
			log.Info("dropped plan waits", "reason", st.Reason)
		case Applying:
			log.Info("dropped plan is being applied", "failures", st.Failures)
		case Skipped:
			log.Info("dropped plan is skipped, as a file " + filepath.Base(st.Path) + skipSuffix + " wants it")
		case Writing:
			log.Debug("dropped plan is being written")
		case Removed:
			log.Info("dropped plan was removed, what it did is not undone")
		case Applied:
			log.Info("dropped plan is applied")
			if st.Reason != "" {
				log.Error("dropped plan is applied, but not all is well", "reason", st.Reason, "again", st.Next)
			}
		default:
			log.Info("dropped plan", "state", string(st.State))
		}
	}
	s.status[st.Path] = st
}

// note logs a warning about a path when it is not what was said of it the last time.
func (s *Source) note(path, message string, err error) {
	if err == nil {
		delete(s.noted, path)
		return
	}
	if s.noted[path] != err.Error() {
		s.noted[path] = err.Error()
		s.o.Logger.Warn(message, "path", path, "error", err)
	}
}

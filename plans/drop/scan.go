// Looking through the directory.

package drop

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	planSuffix        = ".plan"
	positionSuffix    = ".pos"      // of x.plan
	ownPositionSuffix = ".position" // of plans of drover's own formats
	skipSuffix        = ".skip"
)

// found is what a look at the directory found.
type found struct {
	plans  []string          // paths, in order
	skip   map[string]bool   // base names
	open   map[string]string // why a directory cannot be trusted, by path
	unread []string          // directories that could not be read, so that their content is not known
	blind  bool              // a directory is not watched
}

// has says whether a plan is there.
func (f *found) has(path string) bool {
	_, there := slices.BinarySearch(f.plans, path)
	return there
}

// unknown says whether a plan may be there without having been seen.
func (f *found) unknown(path string) bool {
	return slices.ContainsFunc(f.unread, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// round looks at everything once, applies what is to be applied, and says when there will
// be something to do without a notification.
func (s *Source) round(ctx context.Context) (next time.Duration) {
	next = s.o.Sweep
	err := s.directory() // a user may have removed it
	s.note(s.o.Dir+" (directory)", "directory of plans cannot be used", err)
	if err != nil {
		return min(next, sweepWithoutNotice)
	}
	f := s.find()
	if f.blind {
		next = min(next, sweepWithoutNotice)
	}
	next = min(next, s.missing(f))
	s.leftBehind(f)
	for _, path := range f.plans {
		if ctx.Err() != nil {
			return next
		}
		s.pulse.Turn()
		next = min(next, s.consider(ctx, s.at(path), f.skip[filepath.Base(path)], f.open[filepath.Dir(path)]))
	}
	return next
}

// reportBehind reports, while a plan is applied, the others that want something: a user who drops
// a plan must not see nothing for as long as another one takes. It says when to look again.
func (s *Source) reportBehind(applying *dropped) (next time.Duration) {
	next = laterLook
	f := s.find()
	for _, path := range f.plans {
		if path == applying.path {
			continue
		}
		p := s.at(path)
		switch wait, is := s.look(p, f.skip[filepath.Base(path)], f.open[filepath.Dir(path)]); is {
		case nothing:
			next = min(next, max(wait, settle))
		case wanted:
			s.report(Status{
				Path: path, Checksum: p.checksum, State: Waiting, Failures: p.snapshot().FailureCount,
				Reason: "for " + applying.source + ", whose turn it is; one plan at a time is applied",
			})
		}
	}
	return next
}

// find looks through the directory.
func (s *Source) find() *found {
	f := &found{skip: map[string]bool{}, open: map[string]string{}}
	s.walk(s.o.Dir, "", f)
	slices.Sort(f.plans)
	return f
}

// at is what is known of the plan at a path.
func (s *Source) at(path string) *dropped {
	p := s.plans[path]
	if p == nil {
		p = s.newDropped(path)
		s.plans[path] = p
	}
	return p
}

// walk collects what is below dir. untrusted is why a directory above cannot be trusted.
func (s *Source) walk(dir, untrusted string, f *found) {
	if untrusted == "" {
		untrusted = distrust(dir)
	}
	f.open[dir] = untrusted
	// Watched first, then read: what comes in between is seen twice, not never.
	if s.watch != nil {
		err := s.watch(dir)
		s.note(dir+" (watch)", "directory cannot be watched, it is looked at every few seconds; fs.inotify.max_user_watches may be too low", err)
		f.blind = f.blind || err != nil
	}
	entries, err := s.readDir(dir)
	s.note(dir, "directory cannot be read, what is in it is left alone", err)
	if err != nil {
		f.unread = append(f.unread, dir)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir():
			s.walk(path, untrusted, f)
		case strings.HasSuffix(entry.Name(), skipSuffix):
			f.skip[strings.TrimSuffix(entry.Name(), skipSuffix)] = true
		case isPlan(entry.Name()):
			f.plans = append(f.plans, path)
		}
	}
}

// distrust says why others than the agent's own user could put plans into a directory.
func distrust(dir string) string {
	info, err := os.Lstat(dir)
	if err != nil {
		return err.Error()
	}
	return writableByOthers("directory "+dir, info)
}

// writableByOthers says why a file or directory is not safe from others; empty: it is.
func writableByOthers(what string, info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("%s belongs to user %d and not to user %d, whom the agent runs as", what, st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Sprintf("%s has mode %04o, others than its owner can write it: chmod go-w", what, info.Mode().Perm())
	}
	return ""
}

package drop

import (
	"context"
	"io/fs"
	"time"

	"github.com/fsnotify/fsnotify"
)

// SweepWithoutNotice is the distance of looks when notifications are missing.
const SweepWithoutNotice = sweepWithoutNotice

// ReadDirBy has directories read in another way.
func ReadDirBy(s *Source, read func(dir string) ([]fs.DirEntry, error)) { s.readDir = read }

// WatchBy has directories watched in another way.
func WatchBy(s *Source, watch func(dir string) error) { s.watch = watch }

// Round is one look at everything, without a loop around it.
func Round(ctx context.Context, s *Source) time.Duration { return s.round(ctx) }

// Listen is the loop that turns what the kernel says into looks.
func Listen(s *Source, w *fsnotify.Watcher, wake chan<- struct{}) { s.listen(w, wake) }

// Hang is a loop that stops turning now.
func Hang(s *Source) { s.pulse.Turn() }

// Reporting how far a staging is: a line now and then, not one for each byte.

package image

import (
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// reportEvery is the shortest time between two lines about the same layer.
const reportEvery = time.Second

// progress reports one staging.
type progress struct {
	image string
	line  func(string)
	now   func() time.Time
	last  time.Time
}

func (s *Stager) progress(ref name.Reference, line func(string)) *progress {
	return &progress{image: ref.String(), line: line, now: s.now}
}

// say reports at once.
func (t *progress) say(format string, args ...any) {
	if t.line == nil {
		return
	}
	t.last = t.now()
	t.line("image " + t.image + ": " + fmt.Sprintf(format, args...))
}

// layerAt says where in a layer the staging is.
type layerAt struct {
	*progress
	number, of int
	size       int64 // bytes as stored; negative when not known
	done       int64
}

// Write counts what came of the layer.
func (l *layerAt) Write(p []byte) (int, error) {
	l.done += int64(len(p))
	if l.line != nil && l.now().Sub(l.last) >= reportEvery {
		l.say("layer %d of %d, %s", l.number, l.of, amount(l.done, l.size))
	}
	return len(p), nil
}

func (l *layerAt) ended(how string) {
	l.say("layer %d of %d %s, %s", l.number, l.of, how, amount(l.done, l.done))
}

// amount writes bytes done and in all, in a unit in which the whole is readable.
func amount(done, all int64) string {
	unit, word := int64(1), "bytes"
	switch most := max(done, all); {
	case most >= 10<<20:
		unit, word = 1<<20, "MiB"
	case most >= 10<<10:
		unit, word = 1<<10, "KiB"
	}
	if all < 0 || done >= all {
		return fmt.Sprintf("%d %s", done/unit, word)
	}
	return fmt.Sprintf("%d of %d %s", done/unit, all/unit, word)
}

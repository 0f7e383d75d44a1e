// Output of instructions as lines of the agent's log.

package apply

import (
	"bytes"
	"log/slog"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// maxLine is where a longer line is broken, so that one without end does not fill the memory.
const maxLine = 16 << 10

// lines collects both streams until their lines are complete.
type lines struct {
	say  func(message string, attributes ...any)
	part map[supervise.Stream][]byte
}

// newLines logs at info, or at debug when the level is below that.
func newLines(log *slog.Logger, level slog.Level) *lines {
	say := log.Info
	if level < slog.LevelInfo {
		say = log.Debug
	}
	return &lines{say: say, part: map[supervise.Stream][]byte{}}
}

// chunk takes the next piece of output.
func (l *lines) chunk(c supervise.Chunk) {
	if c.Skipped > 0 {
		l.flush()
		l.say("output left out", "bytes", c.Skipped)
	}
	data := c.Data
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		part := append(l.part[c.Stream], line...)
		for len(part) > maxLine {
			l.put(c.Stream, part[:maxLine])
			part = part[maxLine:]
		}
		if !whole {
			l.part[c.Stream] = part
			return
		}
		l.put(c.Stream, part)
		l.part[c.Stream] = l.part[c.Stream][:0]
		data = rest
	}
}

// flush logs what is there of incomplete lines.
func (l *lines) flush() {
	for _, s := range []supervise.Stream{supervise.Stdout, supervise.Stderr} {
		if len(l.part[s]) > 0 {
			l.put(s, l.part[s])
			delete(l.part, s)
		}
	}
}

func (l *lines) put(s supervise.Stream, line []byte) {
	l.say("output", "stream", s.String(), "line", string(line))
}

// Output of instructions as lines of the agent's log, each once however many lives of the
// agent the instruction outlasts.

package output

import (
	"bytes"
	"log/slog"
)

// maxLine is where a longer line is broken, so that one without end does not fill the memory.
const maxLine = 16 << 10

// Lines collects both streams until their lines are complete.
type Lines struct {
	say  func(message string, attributes ...any)
	part map[Stream][]byte
	// mark remembers how far each stream is in the log.
	mark *Mark
}

// NewLines logs at info, or at debug when the level is below that.
func NewLines(log *slog.Logger, level slog.Level, m *Mark) *Lines {
	say := log.Info
	if level < slog.LevelInfo {
		say = log.Debug
	}
	return &Lines{say: say, part: map[Stream][]byte{}, mark: m}
}

// Add takes the next piece of a stream; at is its offset. What is in the log is passed over.
func (l *Lines) Add(s Stream, data []byte, at int64) {
	if old := min(max(l.mark.logged(s)-at, 0), int64(len(data))); old > 0 {
		data, at = data[old:], at+old
	}
	end := at + int64(len(data))
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		part := append(l.part[s], line...)
		for len(part) > maxLine {
			left := len(part) - maxLine + len(rest)
			if whole {
				left++ // the newline
			}
			l.put(s, part[:maxLine], end-int64(left))
			part = part[maxLine:]
		}
		if !whole {
			l.part[s] = part
			return
		}
		l.put(s, part, end-int64(len(rest)))
		l.part[s] = l.part[s][:0]
		data = rest
	}
}

// Gap reports that bytes of the output are missing before the offset at; n of them are news.
func (l *Lines) Gap(n, at int64) {
	l.Flush(at)
	if n > 0 {
		l.say("output left out", "bytes", n)
	}
}

// Flush logs what is there of incomplete lines, when nothing more of them will come; at is
// the offset of what comes next.
func (l *Lines) Flush(at int64) {
	for _, s := range []Stream{Stdout, Stderr} {
		if len(l.part[s]) > 0 {
			l.put(s, l.part[s], at)
			delete(l.part, s)
		}
	}
}

// put logs a line of a stream, of which everything before the offset next is logged then.
func (l *Lines) put(s Stream, line []byte, next int64) {
	l.say("output", "stream", s.String(), "line", string(line))
	l.mark.setLogged(s, next)
}

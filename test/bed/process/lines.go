package process

// The output of a process: written through to its log file, and kept as lines that can be waited for.

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
)

const (
	// keptLines is how many of the last lines can be matched and shown.
	keptLines = 10_000
	// tailLines is how many of the last lines an error shows.
	tailLines = 30
	// longestLine bounds a line, in bytes; a longer one is cut into several.
	longestLine = 1 << 20
)

type lines struct {
	log io.Writer

	mu      sync.Mutex
	kept    []string
	dropped int           // how many lines before kept there were
	partial []byte        // the beginning of a line whose end has not come
	changed chan struct{} // closed and replaced at each new line; nil after the end
}

func newLines(log io.Writer) *lines {
	return &lines{log: log, changed: make(chan struct{})}
}

// Write takes output of the process.
func (l *lines) Write(data []byte) (int, error) {
	written, err := l.log.Write(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, data[:written]...)
	for {
		end := bytes.IndexByte(l.partial, '\n')
		switch {
		case end >= 0:
			l.keep(string(l.partial[:end]))
			l.partial = l.partial[end+1:]
		case len(l.partial) >= longestLine:
			l.keep(string(l.partial))
			l.partial = nil
		default:
			return written, err
		}
	}
}

// keep adds a line; the caller holds the lock.
func (l *lines) keep(line string) {
	l.kept = append(l.kept, line)
	if over := len(l.kept) - keptLines; over > 0 {
		l.kept = l.kept[over:]
		l.dropped += over
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// end says that nothing more comes. An unfinished line counts as one.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.keep(string(l.partial))
		l.partial = nil
	}
	close(l.changed)
	l.changed = nil
}

// find looks for a match from the line with the given number on. Without one it returns the number to go on from, and
// a channel that is closed when there is more; the channel is nil if nothing more comes.
func (l *lines) find(expression *regexp.Regexp, from int) (match []string, next int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.kept[max(0, from-l.dropped):] {
		if match := expression.FindStringSubmatch(line); match != nil {
			return match, 0, nil
		}
	}
	return nil, l.dropped + len(l.kept), l.changed
}

// tail returns the last lines.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept[max(0, len(l.kept)-tailLines):], "\n")
}

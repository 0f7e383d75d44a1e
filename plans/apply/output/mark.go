// How far the output of one try was reported, in a small file of the try's directory. It is
// overwritten in place by single writes and never synced: it has to outlive the agent, not
// the host, for with the host the try dies too.

package output

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// markFile is the file's name. It has three numbers, see Mark.
const markFile = "told"

// markFormat has one length for all numbers, so that one write replaces another whole.
const markFormat = "%020d %020d %020d\n"

// Mark is how far the output of a try was reported.
type Mark struct {
	file *os.File // nil when it cannot be kept; then a later life reports everything anew
	// Reported is the offset up to which output was observed, out and err those up to which the
	// lines of each stream are in the log.
	Reported, out, err int64
}

// OpenMark reads the mark in a try's directory, all zero when there is none.
func OpenMark(dir string) *Mark {
	m := &Mark{}
	f, err := os.OpenFile(filepath.Join(dir, markFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return m
	}
	m.file = f
	b, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return m
	}
	var reported, out, errOut int64
	if _, err := fmt.Sscanf(string(b), markFormat, &reported, &out, &errOut); err == nil && min(reported, out, errOut) >= 0 {
		m.Reported, m.out, m.err = reported, out, errOut
	}
	return m
}

func (m *Mark) logged(s Stream) int64 {
	if s == Stderr {
		return m.err
	}
	return m.out
}

func (m *Mark) setLogged(s Stream, offset int64) {
	if s == Stderr {
		m.err = max(m.err, offset)
	} else {
		m.out = max(m.out, offset)
	}
	m.save()
}

// SetReported notes that output was observed up to an offset.
func (m *Mark) SetReported(offset int64) {
	if offset > m.Reported {
		m.Reported = offset
		m.save()
	}
}

// save gives up at the first fault: a line logged twice is better than an instruction held up.
func (m *Mark) save() {
	if m.file == nil {
		return
	}
	if _, err := m.file.WriteAt(fmt.Appendf(nil, markFormat, m.Reported, m.out, m.err), 0); err != nil {
		m.Close()
	}
}

// Close ends the keeping of the mark.
func (m *Mark) Close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

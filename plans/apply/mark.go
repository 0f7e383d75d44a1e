// How far the output of one try was reported, in a small file of the try's directory. It is
// overwritten in place by single writes and never synced: it has to outlive the agent, not
// the host, for with the host the try dies too.

package apply

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/plans/apply/output"
)

// markFile is the file's name. It has three numbers, see mark.
const markFile = "told"

// markFormat has one length whatever the numbers, so that one write replaces another whole.
const markFormat = "%020d %020d %020d\n"

// mark is how far the output of a try was reported.
type mark struct {
	file *os.File // nil when it cannot be kept; then a later life reports everything anew
	// reported is the offset up to which output was observed, out and err those up to which the
	// lines of each stream are in the log.
	reported, out, err int64
}

// openMark reads the mark in a try's directory, all zero when there is none.
func openMark(dir string) *mark {
	m := &mark{}
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
		m.reported, m.out, m.err = reported, out, errOut
	}
	return m
}

func (m *mark) logged(s output.Stream) int64 {
	if s == output.Stderr {
		return m.err
	}
	return m.out
}

func (m *mark) setLogged(s output.Stream, offset int64) {
	if s == output.Stderr {
		m.err = max(m.err, offset)
	} else {
		m.out = max(m.out, offset)
	}
	m.save()
}

func (m *mark) setReported(offset int64) {
	if offset > m.reported {
		m.reported = offset
		m.save()
	}
}

// save gives up at the first fault: a line logged twice is better than an instruction held up.
func (m *mark) save() {
	if m.file == nil {
		return
	}
	if _, err := m.file.WriteAt(fmt.Appendf(nil, markFormat, m.reported, m.out, m.err), 0); err != nil {
		m.close()
	}
}

func (m *mark) close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

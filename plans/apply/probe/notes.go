// Saying things once: probes fail every few seconds while a host starts, and the log is
// read by people.

package probe

import (
	"fmt"
	"slices"
	"sync"
)

// maxNotes bounds what is remembered; beyond it everything is said once more.
const maxNotes = 1000

// notes remembers what was said last of each thing.
type notes struct {
	mu   sync.Mutex
	said map[string]string
}

// news says whether text is something else than was last said of key; empty text is that all is well.
func (n *notes) news(key, text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[key] == text {
		return false
	}
	if text == "" {
		delete(n.said, key)
		return true
	}
	if n.said == nil || len(n.said) >= maxNotes {
		n.said = map[string]string{}
	}
	n.said[key] = text
	return true
}

// noteLog is the log of one round of probes.
type noteLog struct {
	*Prober
	whose      string // the same for all rounds of one plan's probes
	attributes []any
}

func (r *Prober) about(attributes []any) noteLog {
	return noteLog{Prober: r, whose: fmt.Sprint(attributes...), attributes: attributes}
}

// note logs a warning when err is not what it was the last time, and that it is over.
func (l noteLog) note(key string, err error, message string, attributes ...any) {
	key = l.whose + "/" + key
	attributes = append(slices.Clone(l.attributes), attributes...)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch news := l.notes.news(key, text); {
	case news && err != nil:
		l.Logger.Warn(message, append(attributes, "error", err)...)
	case news:
		l.Logger.Info("no longer: "+message, attributes...)
	}
}

package drop

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAFileThatSomebodyKeepsOpen counts as whole once it has been left alone, also when
// its time is of the future, because the clock was set back or the file was copied with its times.
func TestAFileThatSomebodyKeepsOpen(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name    string
		written time.Time
		busy    bool
	}{
		{"written just now", now, true},
		{"left alone", now.Add(-time.Minute), false},
		{"a day ahead of the clock", now.Add(24 * time.Hour), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.plan")
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("{}"); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, test.written, test.written); err != nil {
				t.Fatal(err)
			}
			b, _, err := readPlan(path, stamp{}, now)
			if busy := errors.Is(err, errBusy); busy != test.busy || (!busy && string(b) != "{}") {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

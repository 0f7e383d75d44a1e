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

// changing is a file that a program writes to while it is read.
type changing struct {
	*os.File
	change func() error
}

func (c *changing) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	if c.change != nil {
		err = errors.Join(err, c.change())
		c.change = nil
	}
	return n, err
}

// TestAFileThatChangesWhileItIsRead is read again and not taken for a plan: half of it may be
// of one plan and half of another.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.plan")
	for name, change := range map[string]func() error{
		"":        nil,
		"longer":  func() error { return os.WriteFile(path, []byte(`{"files":[]}`), 0o600) },
		"as long": func() error { return os.WriteFile(path, []byte("[]"), 0o600) },
		"another one": func() error {
			return errors.Join(os.WriteFile(path+".new", []byte("{}"), 0o600), os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			past := time.Now().Add(-time.Hour) // so that each write changes the time
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			b, err := readUnchanged(f, &changing{f, change}, stampOf(info))
			if busy := errors.Is(err, errBusy); busy != (change != nil) || !busy && string(b) != "{}" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRotation: when a new file begins, and which go.
func TestRotation(t *testing.T) {
	limits := Limits{FileBytes: 10, Files: 3, Age: 72 * time.Hour}
	line := func(s string) []byte { return []byte(s + "\n") }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *files)
		want []string // the files with what is in them
	}{
		{"lines of one file", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaa"), line("bbbb"))
		}, []string{"20260901T100000.000Z.jsonl aaaa bbbb"}},
		{"one that would be too large", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaa"), line("bbbbb"))
		}, []string{"20260901T100000.000Z.jsonl aaaa", "20260901T100000.001Z.jsonl bbbbb"}},
		{"a line that is larger than a file", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaaaaaaaaaaaaaa"))
		}, []string{"20260901T100000.000Z.jsonl aaaaaaaaaaaaaaaa"}},
		{"a day", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("a"))
			write(t, f, start.Add(24*time.Hour-time.Second), limits, line("b"))
			write(t, f, start.Add(24*time.Hour), limits, line("c"))
		}, []string{"20260901T100000.000Z.jsonl a b", "20260902T100000.000Z.jsonl c"}},
		{"too many", func(t *testing.T, f *files) {
			for i := range 5 {
				write(t, f, start.Add(time.Duration(i)*time.Second), limits, line("aaaaaaaa"))
			}
		}, []string{"20260901T100002.000Z.jsonl aaaaaaaa", "20260901T100003.000Z.jsonl aaaaaaaa", "20260901T100004.000Z.jsonl aaaaaaaa"}},
		{"too old: its last line was written before the next file began", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("a"))
			write(t, f, start.Add(25*time.Hour), limits, line("b"))
			write(t, f, start.Add(99*time.Hour), limits, line("c"))
		}, []string{"20260902T110000.000Z.jsonl b", "20260905T130000.000Z.jsonl c"}},
		{"a clock that goes back", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaaaaaa"))
			write(t, f, start.Add(-time.Hour), limits, line("bbbbbbbb"))
		}, []string{"20260901T100000.000Z.jsonl aaaaaaaa", "20260901T100000.001Z.jsonl bbbbbbbb"}},
		{"a start goes on with the newest", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaa"))
			again := &files{dir: f.dir, create: create, report: f.report}
			if err := again.open(); err != nil {
				t.Fatal(err)
			}
			defer again.close()
			write(t, again, start.Add(time.Hour), limits, line("bbbb"))
			write(t, again, start.Add(time.Hour), limits, line("cccc"))
		}, []string{"20260901T100000.000Z.jsonl aaaa bbbb", "20260901T110000.000Z.jsonl cccc"}},
		{"somebody removed it", func(t *testing.T, f *files) {
			write(t, f, start, limits, line("aaaa"))
			if err := os.RemoveAll(f.dir); err != nil {
				t.Fatal(err)
			}
			f.look()
			write(t, f, start.Add(time.Hour), limits, line("bbbb"))
		}, []string{"20260901T110000.000Z.jsonl bbbb"}},
		{"what is not ours stays", func(t *testing.T, f *files) {
			for _, name := range []string{"notes.jsonl", "20260101T000000.000Z.jsonl.gz"} {
				if err := os.WriteFile(filepath.Join(f.dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 4 {
				write(t, f, start, limits, line("aaaaaaaa"))
			}
		}, []string{"20260101T000000.000Z.jsonl.gz", "20260901T100000.001Z.jsonl aaaaaaaa", "20260901T100000.002Z.jsonl aaaaaaaa", "20260901T100000.003Z.jsonl aaaaaaaa", "notes.jsonl"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &files{dir: filepath.Join(t.TempDir(), "audit"), create: create, report: func(err error) { t.Error(err) }}
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			c.do(t, f)
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, contents(t, f.dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func write(t *testing.T, f *files, now time.Time, limits Limits, lines ...[]byte) {
	t.Helper()
	for _, line := range lines {
		if err := f.write(line, now, limits); err != nil {
			t.Fatal(err)
		}
	}
}

func contents(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(e.Name()+" "+strings.ReplaceAll(string(text), "\n", " ")))
	}
	return all
}

// TestAFullFileIsBetterThanNone: where no new one can be made, lines go on in the old one.
func TestAFullFileIsBetterThanNone(t *testing.T) {
	var reported []error
	f := &files{dir: t.TempDir(), create: create, report: func(err error) { reported = append(reported, err) }}
	limits := Limits{FileBytes: 10, Files: 3, Age: time.Hour}
	write(t, f, start, limits, []byte("aaaaaaaa\n"))
	f.create = func(string) (*os.File, error) { return nil, os.ErrPermission }
	write(t, f, start, limits, []byte("bbbbbbbb\n"))
	if diff := cmp.Diff([]string{"20260901T100000.000Z.jsonl aaaaaaaa bbbbbbbb"}, contents(t, f.dir)); diff != "" {
		t.Error(diff)
	}
	if len(reported) != 1 {
		t.Error(reported)
	}
}

package durable_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/plans/durable"
)

func wantText(t *testing.T, path, want string) {
	t.Helper()
	b, err := durable.ReadRewritten(path, 1<<20)
	if string(b) != want || err != nil {
		t.Errorf("%s has %.60q, %v; want %.60q", path, b, err, want)
	}
}

func value(text string) []byte { return []byte(`{"text":"` + text + `"}`) }

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, n := range []int{3, 4, 100_000, 40_000, 5, 8_000, 1, 1} {
		text := value(strings.Repeat("x", n))
		if err := durable.Rewrite(path, text); err != nil {
			t.Fatal(err)
		}
		wantText(t, path, string(text))
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 || info.Size() > 40*int64(n)+16<<10 {
			t.Errorf("mode %v, size %d for %d bytes, %v", info.Mode(), info.Size(), n, err)
		}
		b, err := os.ReadFile(path)
		var all struct {
			Schema int
			Slots  []struct{ Number int }
		}
		if err := errors.Join(err, json.Unmarshal(b, &all)); err != nil || all.Schema != 2 || len(all.Slots) != 2 {
			t.Errorf("after %d bytes the file is no JSON of two slots: %+v, %v", n, all, err)
		}
	}
}

// TestRewriteCutOff leaves of a write what a crash may: any part of its slot, in any order.
func TestRewriteCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var files [][]byte
	for _, text := range []string{"one", "a second, longer", "3"} {
		if err := durable.Rewrite(path, value(text)); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	was, is := files[1], files[2]
	for n := range len(is) {
		if was[n] == is[n] {
			continue
		}
		torn := [][]byte{append(is[:n:n], was[n:]...), append(was[:n:n], is[n:]...)}
		if n%2 == 0 {
			torn[0][n] = 0
		}
		for _, b := range torn {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			want := string(value("a second, longer"))
			if string(b) == string(is) {
				want = string(value("3"))
			}
			wantText(t, path, want)
			if err := durable.Rewrite(path, value("four")); err != nil {
				t.Fatal(err)
			}
			wantText(t, path, string(value("four")))
		}
	}
}

// TestRewriteThatIsNotDurable fails, leaves the value as it was, and does not have the next write go over the only slot that is durable.
func TestRewriteThatIsNotDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "two"} {
		if err := durable.Rewrite(path, value(text)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	for range 2 {
		if err := durable.RewriteWith(path, value("three"), func(*os.File) error { return broken }); !errors.Is(err, broken) {
			t.Fatalf("Rewrite() = %v", err)
		}
		wantText(t, path, string(value("two")))
	}
	if err := durable.Rewrite(path, value("four")); err != nil {
		t.Fatal(err)
	}
	wantText(t, path, string(value("four")))
	after, err := os.ReadFile(path)
	if half := len(before) / 2; err != nil || string(after[half:]) != string(before[half:]) {
		t.Errorf("the slot with what was durable was written over: %v", err)
	}
}

// TestRewriteOfAnotherForm: what was written whole, as before there were slots, is read and replaced.
func TestRewriteOfAnotherForm(t *testing.T) {
	for _, was := range []string{string(value("old")) + "\n\n", "", `{"schema":2,"slots":[`, `{"schema":2,"slots":[` + strings.Repeat(" ", 8<<10-21)} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(was), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(was) < 8<<10 {
			wantText(t, path, was)
		} else if _, err := durable.ReadRewritten(path, 1<<20); !errors.Is(err, durable.ErrNoSlot) {
			t.Errorf("no slot: %v", err)
		}
		if err := durable.Rewrite(path, value("new")); err != nil {
			t.Fatal(err)
		}
		wantText(t, path, string(value("new")))
	}
}

// TestRewriteBesideAReader reads while another goroutine writes.
func TestRewriteBesideAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var group sync.WaitGroup
	done := make(chan struct{})
	if err := durable.Rewrite(path, value("0")); err != nil {
		t.Fatal(err)
	}
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := durable.ReadRewritten(path, 1<<20); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range 300 {
		if err := durable.Rewrite(path, value(strings.Repeat("y", n*37%5000))); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	group.Wait()
}

// TestRewriteKeepsTheFile: what is written often takes no new space.
func TestRewriteKeepsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 2 {
		if err := durable.Rewrite(path, value("x")); err != nil {
			t.Fatal(err)
		}
	}
	one, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Rewrite(path, value("y")); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(one, again) {
		t.Errorf("after two more it is another file, %v", err)
	}
}

// TestRewriteDoesNotTrustWhatIsThere: a file that others can read or that has another
// name, and a link, are replaced and not written into; a directory is refused.
func TestRewriteDoesNotTrustWhatIsThere(t *testing.T) {
	for name, put := range map[string]func(path, other string) error{
		"readable by all": func(path, _ string) error { return os.Chmod(path, 0o644) },
		"a link": func(path, other string) error {
			return errors.Join(os.Rename(path, other), os.Symlink(other, path))
		},
		"another name": func(path, other string) error { return os.Link(path, other) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
			if err := durable.Rewrite(path, value("theirs")); err != nil {
				t.Fatal(err)
			}
			if err := put(path, other); err != nil {
				t.Fatal(err)
			}
			if err := durable.Rewrite(path, value("new")); err != nil {
				t.Fatal(err)
			}
			wantText(t, path, string(value("new")))
			if name != "readable by all" {
				wantText(t, other, string(value("theirs")))
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.MkdirAll(filepath.Join(path, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.Rewrite(path, value("new")); err == nil {
		t.Error("a directory with something in it was replaced")
	}
}

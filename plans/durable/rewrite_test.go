package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/durable"
)

func wantText(t *testing.T, path, want string) {
	t.Helper()
	b, err := durable.ReadFile(path, 1<<20)
	if got := strings.TrimRight(string(b), "\n"); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", path, got, err, want)
	}
}

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	long := strings.Repeat("long ", 2000)
	for _, text := range []string{"one", "two", long, "four", "five"} {
		if err := durable.Rewrite(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		wantText(t, path, text)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	wantText(t, path+".tmp", "four")
}

// TestRewriteKeepsTheSameTwoFiles: what is written often takes no new space.
func TestRewriteKeepsTheSameTwoFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 2 {
		if err := durable.Rewrite(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	one, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Rewrite(path, []byte("y")); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(one, again) {
		t.Errorf("after two more it is another file, %v", err)
	}
}

// TestRewriteDoesNotTrustWhatIsBeside: a file that others can read or that has another
// name, a link, a pipe and a directory are not written into.
func TestRewriteDoesNotTrustWhatIsBeside(t *testing.T) {
	for name, put := range map[string]func(temp, other string) error{
		"readable by all": func(temp, _ string) error { return os.WriteFile(temp, []byte("was"), 0o644) },
		"a link":          func(temp, other string) error { return os.Symlink(other, temp) },
		"another name":    func(temp, other string) error { return os.Link(other, temp) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := put(path+".tmp", other); err != nil {
				t.Fatal(err)
			}
			if err := durable.Rewrite(path, []byte("new")); err != nil {
				t.Fatal(err)
			}
			wantText(t, path, "new")
			wantText(t, other, "theirs")
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.MkdirAll(filepath.Join(path+".tmp", "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.Rewrite(path, []byte("new")); err == nil {
		t.Error("a directory with something in it was replaced")
	}
}

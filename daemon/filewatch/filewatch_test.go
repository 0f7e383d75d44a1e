package filewatch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/filewatch"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWait changes a file in all the ways that people and programs do.
func TestWait(t *testing.T) {
	write := func(t *testing.T, path, content string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for name, change := range map[string]struct {
		before, do func(t *testing.T, dir string)
	}{
		"in place": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "old") },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "new") },
		},
		"by a rename": {
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "old") },
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "next"), "new")
				must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "file")))
			},
		},
		"made again": {
			func(t *testing.T, dir string) {},
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file"), "new") },
		},
		"as Kubernetes does": {
			func(t *testing.T, dir string) {
				must(t, os.Mkdir(filepath.Join(dir, "..one"), 0o700))
				write(t, filepath.Join(dir, "..one", "file"), "old")
				must(t, os.Symlink("..one", filepath.Join(dir, "..data")))
				must(t, os.Symlink("..data/file", filepath.Join(dir, "file")))
			},
			func(t *testing.T, dir string) {
				must(t, os.Mkdir(filepath.Join(dir, "..two"), 0o700))
				write(t, filepath.Join(dir, "..two", "file"), "new")
				must(t, os.Symlink("..two", filepath.Join(dir, "..data_tmp")))
				must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
				must(t, os.RemoveAll(filepath.Join(dir, "..one")))
			},
		},
		"in another directory": {
			func(t *testing.T, dir string) {
				must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
				write(t, filepath.Join(dir, "real", "x"), "old")
				must(t, os.Symlink(filepath.Join(dir, "real", "x"), filepath.Join(dir, "file")))
			},
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "real", "x"), "new") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			change.before(t, dir)
			known := filewatch.Of(path)
			got := make(chan filewatch.Sum, 1)
			go func() {
				now, err := filewatch.Wait(t.Context(), path, known)
				if err != nil {
					t.Error(err)
				}
				got <- now
			}()
			select {
			case <-got:
				t.Fatal("changed before anything was")
			case <-time.After(50 * time.Millisecond):
			}
			change.do(t, dir)
			select {
			case now := <-got:
				if now == known || now != filewatch.Of(path) && now != (filewatch.Sum{}) {
					t.Error("not what is there now")
				}
			case <-time.After(20 * time.Second): // less than the sweep
				t.Fatal("not noticed")
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "file")
	if _, err := filewatch.Wait(ctx, path, filewatch.Of(path)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

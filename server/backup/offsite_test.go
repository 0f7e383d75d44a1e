package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadOffsite: what is wrong with the file is named, and none of its values is.
func TestReadOffsite(t *testing.T) {
	t.Parallel()
	const good = "bucket: vault\naccessKey: AKIAVAULT\nsecretKey: hunter2\n"
	open := private(t, good)
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"others can read it", open, "has mode 0640"},
		{"a field that is not known", private(t, good+"secret: hunter2\n"), ":4: secret: "},
		{"no bucket", private(t, "accessKey: AKIAVAULT\nsecretKey: hunter2\n"), "there is none"},
		{"not a bucket", private(t, strings.Replace(good, "vault", "V/ault", 1)), "bucket: "},
		{"one key of two", private(t, strings.Replace(good, "secretKey: hunter2", "region: eu-1", 1)), "one key of two"},
		{"a folder above", private(t, good+"folder: a/../..\n"), "folder: "},
		{"no YAML", private(t, "bucket: [hunter2"), "1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadOffsite(c.path); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := ReadOffsite(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	o := must(ReadOffsite(private(t, good)))(t)
	if text := fmt.Sprintf("%v %+v %#v %s", o, o, o, o); strings.Contains(text, "hunter2") {
		t.Errorf("printed it is %s", text)
	}
}

package hostfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/test/skips"
)

// keep is an owner that any user may set.
var keep = hostfs.Owner{UID: -1, GID: -1}

// host is an empty host and a directory beside it that nothing may touch.
func host(t *testing.T) (h hostfs.FS, outside string) {
	t.Helper()
	top := t.TempDir()
	root, outside := filepath.Join(top, "root"), filepath.Join(top, "outside")
	for _, dir := range []string{root, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return hostfs.FS{Root: root}, outside
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func bring(h hostfs.FS, want hostfs.Entry) (changed bool, err error) {
	c, err := h.Bring(want)
	return err == nil && c.Action != hostfs.None, err
}

func writeFile(h hostfs.FS, name string, content []byte, mode fs.FileMode, owner hostfs.Owner) (bool, error) {
	return bring(h, hostfs.Entry{Name: name, Kind: hostfs.File, Content: content, Mode: mode, Owner: owner})
}

func mkdir(h hostfs.FS, name string, mode fs.FileMode, owner hostfs.Owner) (bool, error) {
	return bring(h, hostfs.Entry{Name: name, Kind: hostfs.Dir, Mode: mode, Owner: owner})
}

func remove(h hostfs.FS, name string, tree bool) (bool, error) {
	return bring(h, hostfs.Entry{Name: name, Kind: hostfs.Nothing, Tree: tree})
}

func link(h hostfs.FS, name, target string) (bool, error) {
	return bring(h, hostfs.Entry{Name: name, Kind: hostfs.Link, Target: target})
}

func TestWriteFile(t *testing.T) {
	// A mask of the agent must not weaken or tighten what the plan says. Tests of this package do not run in parallel.
	defer syscall.Umask(syscall.Umask(0o077))
	tests := []struct {
		name    string
		prepare func(t *testing.T, root string)
		mode    fs.FileMode
		changed bool
		want    fs.FileMode
	}{
		{"new, with missing parents", func(*testing.T, string) {}, 0o644, true, 0o644},
		{"setuid, setgid and sticky are kept", func(*testing.T, string) {}, 0o755 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, true, 0o755 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky},
		{"other content", write("etc/a/f", "old", 0o600), 0o640, true, 0o640},
		{"same length, other content", write("etc/a/f", "neW", 0o600), 0o600, true, 0o600},
		{"equal", write("etc/a/f", "new", 0o600), 0o600, false, 0o600},
		{"equal content, other mode", write("etc/a/f", "new", 0o666), 0o600, true, 0o600},
		{"a dangling link is replaced", symlink("etc/a/f", "/nowhere/at/all"), 0o600, true, 0o600},
		{"a link to a file is replaced, the file stays", func(t *testing.T, root string) {
			write("etc/b", "other", 0o600)(t, root)
			symlink("etc/a/f", "/etc/b")(t, root)
		}, 0o600, true, 0o600},
		{"a leftover of a crash is not an obstacle", write("etc/a/.drover-252f10c83610ebca", "half", 0o666), 0o600, true, 0o600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, _ := host(t)
			test.prepare(t, h.Root)
			changed, err := writeFile(h, "/etc/a/f", []byte("new"), test.mode, keep)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(h.Root, "etc/a/f")
			if got := content(t, path); got != "new" {
				t.Errorf("content %q", got)
			}
			if changed != test.changed {
				t.Errorf("changed = %v", changed)
			}
			if got := mode(t, path); got != test.want {
				t.Errorf("mode %v, want %v", got, test.want)
			}
			if changed, err := writeFile(h, "/etc/a/f", []byte("new"), test.mode, keep); changed || err != nil {
				t.Errorf("the second time: changed = %v, error %v", changed, err)
			}
			names, err := filepath.Glob(filepath.Join(h.Root, "etc/a/.*"))
			if err != nil || len(names) > 0 {
				t.Errorf("left over: %v, %v", names, err)
			}
			if b := filepath.Join(h.Root, "etc/b"); strings.Contains(test.name, "the file stays") && content(t, b) != "other" {
				t.Error("the link was followed")
			}
		})
	}
}

func TestMissingParentsAre0755(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	h, _ := host(t)
	if _, err := writeFile(h, "/a/b/f", nil, 0o600, keep); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a", "a/b"} {
		if got := mode(t, filepath.Join(h.Root, dir)); got != fs.ModeDir|0o755 {
			t.Errorf("%s has mode %v", dir, got)
		}
	}
}

func TestAnIdenticalFileIsNotTouched(t *testing.T) {
	h, _ := host(t)
	write("f", "same", 0o644)(t, h.Root)
	path := filepath.Join(h.Root, "f")
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeFile(h, "/f", []byte("same"), 0o600, keep); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) || !after.ModTime().Equal(old) || after.Mode() != 0o600 {
		t.Errorf("rewritten, or mode not set: %v %v", after.ModTime(), after.Mode())
	}
}

func TestWriteErrorsLeaveTheOldState(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, root string)
		want    error
	}{
		{"a directory is there", write("f/inside", "x", 0o600), syscall.EISDIR},
		{"a parent is a file", write("p", "x", 0o600), syscall.ENOTDIR},
		{"a parent is a cycle of links", func(t *testing.T, root string) {
			symlink("p", "/q")(t, root)
			symlink("q", "/p")(t, root)
		}, syscall.ELOOP},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, _ := host(t)
			test.prepare(t, h.Root)
			name := "/f"
			if _, err := os.Lstat(filepath.Join(h.Root, "p")); err == nil {
				name = "/p/f"
			}
			before := tree(t, h.Root)
			if _, err := writeFile(h, name, []byte("new"), 0o600, keep); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if after := tree(t, h.Root); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		skips.Skip(t, "only root may give files away")
	}
	h, _ := host(t)
	owner := func() (int, int) {
		info, err := os.Stat(filepath.Join(h.Root, "f"))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		return int(st.Uid), int(st.Gid)
	}
	steps := []struct {
		name     string
		content  string
		owner    hostfs.Owner
		uid, gid int
	}{
		{"set on a new file", "1", hostfs.Owner{UID: 12, GID: 34}, 12, 34},
		{"left on a rewritten file", "2", keep, 12, 34},
		{"one id left", "3", hostfs.Owner{UID: -1, GID: 35}, 12, 35},
		{"re-asserted on an identical file", "3", hostfs.Owner{}, 0, 0},
	}
	for _, step := range steps {
		if _, err := writeFile(h, "/f", []byte(step.content), 0o755|fs.ModeSetuid, step.owner); err != nil {
			t.Fatal(err)
		}
		if uid, gid := owner(); uid != step.uid || gid != step.gid {
			t.Errorf("%s: %d:%d, want %d:%d", step.name, uid, gid, step.uid, step.gid)
		}
		if got := mode(t, filepath.Join(h.Root, "f")); got != 0o755|fs.ModeSetuid {
			t.Errorf("%s: mode %v: setuid went with the owner", step.name, got)
		}
	}
}

func TestLinksDoNotLeadOutOfTheRoot(t *testing.T) {
	tests := []struct{ name, link, at string }{
		{"absolute", "OUTSIDE", "etc/dir"},
		{"relative upwards", "../../../../../../../../../..OUTSIDE", "etc/dir"},
		{"upwards through another link", "up/../../..OUTSIDE", "etc/dir"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, outside := host(t)
			write("etc/x", "", 0o600)(t, h.Root)
			symlink("etc/up", ".")(t, h.Root)
			symlink(test.at, strings.ReplaceAll(test.link, "OUTSIDE", outside))(t, h.Root)
			if err := os.WriteFile(filepath.Join(outside, "f"), []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, outside)
			if _, err := writeFile(h, "/etc/dir/f", []byte("new"), 0o644, keep); err != nil {
				t.Fatal(err)
			}
			if _, err := mkdir(h, "/etc/dir/sub", 0o755, keep); err != nil {
				t.Fatal(err)
			}
			if _, err := link(h, "/etc/dir/l", "x"); err != nil {
				t.Fatal(err)
			}
			if after := tree(t, outside); after != before {
				t.Errorf("outside changed:\n%s\n%s", before, after)
			}
			// What the link means inside is where the file went: the same host path below the root.
			if got := content(t, filepath.Join(h.Root, outside, "f")); got != "new" {
				t.Errorf("inside: %q", got)
			}
			if b, err := h.ReadFile("/etc/dir/f", 100); err != nil || string(b) != "new" {
				t.Errorf("read back %q, %v", b, err)
			}
			if _, err := remove(h, "/etc/dir/f", false); err != nil {
				t.Fatal(err)
			}
			if after := tree(t, outside); after != before {
				t.Errorf("outside changed by a removal:\n%s\n%s", before, after)
			}
		})
	}
}

func TestAbsoluteLinksOfAHostAreFollowed(t *testing.T) {
	h, _ := host(t)
	if err := os.Mkdir(filepath.Join(h.Root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	symlink("var/run", "/run")(t, h.Root)
	if _, err := writeFile(h, "/var/run/a/f", []byte("x"), 0o644, keep); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(h.Root, "run/a/f")); got != "x" {
		t.Errorf("content %q", got)
	}
	if got := mode(t, filepath.Join(h.Root, "var/run")); got&fs.ModeSymlink == 0 {
		t.Error("the link of the host was replaced")
	}
}

func TestMkdir(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, root string)
		changed bool
		want    error
	}{
		{"new", func(*testing.T, string) {}, true, nil},
		{"there, other mode", write("d/f", "x", 0o600), true, nil},
		{"there behind a link", func(t *testing.T, root string) {
			write("real/f", "x", 0o600)(t, root)
			symlink("d", "/real")(t, root)
		}, true, nil},
		{"a file is there", write("d", "x", 0o600), false, syscall.ENOTDIR},
		{"a dangling link is there", symlink("d", "/gone"), false, fs.ErrNotExist},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, _ := host(t)
			test.prepare(t, h.Root)
			changed, err := mkdir(h, "/d", 0o750|fs.ModeSticky, keep)
			if !errors.Is(err, test.want) || changed != test.changed {
				t.Fatalf("changed = %v, error %v; want %v", changed, err, test.want)
			}
			if test.want != nil {
				return
			}
			info, err := os.Stat(filepath.Join(h.Root, strings.TrimPrefix(linkText(h.Root, "d"), "/")))
			if err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o750 {
				t.Errorf("mode %v, error %v", info.Mode(), err)
			}
			if changed, err := mkdir(h, "/d", 0o750|fs.ModeSticky, keep); changed || err != nil {
				t.Errorf("the second time: changed = %v, error %v", changed, err)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, root string)
		tree    bool
		changed bool
		fails   bool
	}{
		{"nothing there", func(*testing.T, string) {}, false, false, false},
		{"parent missing or a file", write("a", "x", 0o600), true, false, false},
		{"file", write("a/b", "x", 0o600), false, true, false},
		{"tree", write("a/b/c/d", "x", 0o600), true, true, false},
		{"full directory without asking for the tree", write("a/b/c", "x", 0o600), false, false, true},
		{"link, not what it leads to", func(t *testing.T, root string) {
			write("keep/f", "x", 0o600)(t, root)
			symlink("a/b", "/keep")(t, root)
		}, true, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, _ := host(t)
			test.prepare(t, h.Root)
			changed, err := remove(h, "/a/b", test.tree)
			if (err != nil) != test.fails || changed != test.changed {
				t.Fatalf("changed = %v, error %v", changed, err)
			}
			if _, err := os.Lstat(filepath.Join(h.Root, "a/b")); !test.fails && err == nil {
				t.Error("still there")
			}
			if _, err := os.Lstat(filepath.Join(h.Root, "keep")); err == nil {
				if got := content(t, filepath.Join(h.Root, "keep/f")); got != "x" {
					t.Error("removed through the link")
				}
			}
		})
	}
}

func TestLink(t *testing.T) {
	h, _ := host(t)
	write("etc/f", "operator's", 0o644)(t, h.Root)
	if changed, err := link(h, "/etc/f", "/var/f"); !changed || err != nil {
		t.Fatalf("changed = %v, error %v", changed, err)
	}
	if got := linkText(h.Root, "etc/f"); got != "/var/f" {
		t.Errorf("link to %q", got)
	}
	if changed, err := link(h, "/etc/f", "/var/f"); changed || err != nil {
		t.Errorf("the second time: changed = %v, error %v", changed, err)
	}
	write("etc/d/f", "x", 0o600)(t, h.Root)
	if _, err := link(h, "/etc/d", "/var/f"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory was replaced: %v", err)
	}
}

func TestSameEntry(t *testing.T) {
	h, _ := host(t)
	write("real/f", "x", 0o600)(t, h.Root)
	symlink("alias", "/real")(t, h.Root)
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"/real/f", "/alias/f", true},
		{"/real/f", "/alias/g", false},
		{"/real/f", "/gone/f", false},
	} {
		if got := h.SameEntry(test.a, test.b); got != test.want {
			t.Errorf("SameEntry(%s, %s) = %v", test.a, test.b, got)
		}
	}
}

func TestReadFile(t *testing.T) {
	h, outside := host(t)
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("a/f", "hello", 0o600)(t, h.Root)
	symlink("rel", "a/../a/f")(t, h.Root)
	symlink("b/up", "../a/f")(t, h.Root)
	symlink("leak", filepath.Join(outside, "secret"))(t, h.Root)
	if err := syscall.Mkfifo(filepath.Join(h.Root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		limit int64
		fails bool
	}{
		{"/a/f", 5, false}, {"/rel", 5, false}, {"/b/up", 5, false},
		{"/a/f", 4, true}, {"/a", 5, true}, {"/leak", 5, true}, {"/fifo", 5, true}, {"/gone", 5, true},
	} {
		b, err := h.ReadFile(test.name, test.limit)
		if (err != nil) != test.fails || (err == nil && string(b) != "hello") {
			t.Errorf("ReadFile(%s, %d) = %q, %v", test.name, test.limit, b, err)
		}
	}
}

func write(name, content string, mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

func symlink(name, target string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
}

// linkText is the target of the link, or name itself when it is none.
func linkText(root, name string) string {
	text, err := os.Readlink(filepath.Join(root, name))
	if err != nil {
		return name
	}
	return text
}

// tree lists everything below dir with modes and contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(info.Mode().String() + " " + path)
		if info.Mode().IsRegular() {
			b.WriteString(" " + content(t, path))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/store/keyring"
	"github.com/drover-project/drover/test/skips"
)

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "encryption.key")
	s, _, secrets := openNotes(t, dir)
	for _, key := range []string{"a", "b"} {
		must(secrets.Create(t.Context(), key, note{Text: key}))(t)
	}
	before := secrets.List()
	oldID := s.keys.FirstID()
	closeStore(t, s)

	text := must(os.ReadFile(path))(t)
	lines := strings.SplitAfter(string(text), "\n")
	oldLine := lines[len(lines)-2]
	newLine := keyLine(t)
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keyIDs := func(s *Store) []keyring.ID {
		var ids []keyring.ID
		for _, key := range []string{canaryKey, documentKey("secrets", "a"), documentKey("secrets", "b")} {
			id, err := keyring.KeyOf(must(s.client.Get(t.Context(), key))(t).Kvs[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}

	rewrite(oldLine + newLine) // known to all
	s, _, _ = openNotes(t, dir)
	if diff := cmp.Diff([]keyring.ID{oldID, oldID, oldID}, keyIDs(s)); diff != "" {
		t.Error(diff)
	}
	closeStore(t, s)

	rewrite(newLine + oldLine) // used by all
	s, _, secrets = openNotes(t, dir)
	newID := s.keys.FirstID()
	if diff := cmp.Diff([]keyring.ID{newID, newID, newID}, keyIDs(s)); diff != "" || newID == oldID {
		t.Error(diff)
	}
	must(secrets.Modify(t.Context(), "a", func(n note) (note, error) { return n, nil }))(t)
	closeStore(t, s)

	rewrite(newLine) // alone
	s, _, secrets = openNotes(t, dir)
	for i, d := range secrets.List() {
		if diff := cmp.Diff(before[i].Value, d.Value); diff != "" {
			t.Error(diff)
		}
	}
	closeStore(t, s)

	rewrite(oldLine) // the wrong one
	_, err := openWith(t.Context(), Options{DataDir: dir}, nil, NewCollection[note]("secrets", true))
	if err == nil || !strings.Contains(err.Error(), "the key file "+path+" does not belong to this store") || !strings.Contains(err.Error(), newID.String()) {
		t.Errorf("with the old key alone Open gives %v", err)
	}
}

func TestKeyFileRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "encryption.key")
	s, _, _ := openNotes(t, dir)
	id := s.keys.FirstID().String()
	closeStore(t, s)
	good := must(os.ReadFile(path))(t)
	if info := must(os.Stat(path))(t); info.Mode() != 0o600 {
		t.Errorf("the key file has mode %s", info.Mode())
	}
	for _, c := range []struct {
		name   string
		damage func() error
		want   []string // parts of the error
	}{
		{"missing", func() error { return nil }, []string{dir, path + " is missing", "key " + id}},
		{"readable by others", func() error { return writeMode(path, good, 0o640) }, []string{path, "mode 0640", "chmod 600"}},
		{"writable by others", func() error { return writeMode(path, good, 0o602) }, []string{path, "mode 0602"}},
		{"a directory", func() error { return os.Mkdir(path, 0o700) }, []string{path, "not a regular file"}},
		{"empty", func() error { return writeMode(path, nil, 0o600) }, []string{path, "no key"}},
		{"too large", func() error { return writeMode(path, bytes.Repeat([]byte("#\n"), 40_000), 0o600) }, []string{path, "larger than"}},
		{"another key", func() error { return writeMode(path, []byte(keyLine(t)), 0o600) }, []string{path, "does not belong", id}},
		{"of another user", func() error {
			if os.Geteuid() != 0 {
				skips.Skip(t, "only root can give files away")
			}
			if err := writeMode(path, good, 0o600); err != nil {
				return err
			}
			return os.Chown(path, 12345, -1)
		}, []string{path, "belongs to user 12345", "chown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			_, err := openWith(t.Context(), Options{DataDir: dir}, nil, NewCollection[note]("secrets", true))
			if err == nil {
				t.Fatal("Open succeeded")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %q, want %q in it", err, part)
				}
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the key file was changed")
			}
			if leftovers, _ := filepath.Glob(filepath.Join(dir, ".encryption-key-*")); len(leftovers) > 0 {
				t.Errorf("left behind: %v", leftovers)
			}
		})
	}
}

func writeMode(path string, content []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// keyLine is the line that a key file has of another key.
func keyLine(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.key")
	must(keyring.Make(path))(t)
	lines := strings.SplitAfter(string(must(os.ReadFile(path))(t)), "\n")
	return lines[len(lines)-2]
}

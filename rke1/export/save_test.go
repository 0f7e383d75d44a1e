package export_test

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/rke1/export"
)

var some = []export.File{{Name: "a", Content: []byte("first")}, {Name: "b", Content: []byte("second")}}

func TestSave(t *testing.T) {
	for _, before := range []string{"new", "empty"} {
		t.Run(before, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "out")
			if before == "empty" {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := export.Save(dir, some); err != nil {
				t.Fatal(err)
			}
			modes := map[string]fs.FileMode{}
			for _, name := range []string{"", "a", "b"} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				modes[name] = info.Mode().Perm()
			}
			if diff := cmp.Diff(map[string]fs.FileMode{"": 0o700, "a": 0o600, "b": 0o600}, modes); diff != "" {
				t.Error(diff)
			}
			only(t, parent, "out")
		})
	}
}

func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("in %s: %s", dir, diff)
	}
}

func TestSaveWholeOrNotAtAll(t *testing.T) {
	t.Run("files are there", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := export.Save(dir, some); err == nil || !strings.Contains(err.Error(), "name a directory that is new or empty") {
			t.Errorf("got %v", err)
		}
		only(t, dir, "mine")
	})
	t.Run("a file of the name", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := export.Save(path, some); err == nil {
			t.Error("a file was taken for a directory")
		}
	})
	t.Run("no parent", func(t *testing.T) {
		if err := export.Save(filepath.Join(t.TempDir(), "no", "out"), some); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file that cannot be written", func(t *testing.T) {
		parent := t.TempDir()
		bad := []export.File{some[0], {Name: strings.Repeat("x", 300), Content: []byte("y")}}
		if err := export.Save(filepath.Join(parent, "out"), bad); err == nil {
			t.Error("a name that is too long was written")
		}
		only(t, parent)
	})
	t.Run("a name that leads out", func(t *testing.T) {
		parent := t.TempDir()
		if err := export.Save(filepath.Join(parent, "out"), []export.File{{Name: "../x"}}); err == nil {
			t.Error("../x was written")
		}
		only(t, parent)
	})
}

func TestSeal(t *testing.T) {
	native, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	overSSH, err := agessh.NewEd25519Identity(private)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := export.Seal(some, []string{native.Recipient().String(), string(ssh.MarshalAuthorizedKey(key))}, birth)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed.Content, some[1].Content) {
		t.Error("the content can be read")
	}
	for name, identity := range map[string]age.Identity{"age": native, "ssh": overSSH} {
		r, err := age.Decrypt(bytes.NewReader(sealed.Content), identity)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []export.File
		for in := tar.NewReader(r); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			if h.Mode != 0o600 {
				t.Errorf("%s has mode %o", h.Name, h.Mode)
			}
			got = append(got, export.File{Name: h.Name, Content: content})
		}
		if diff := cmp.Diff(some, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := age.Decrypt(bytes.NewReader(sealed.Content), stranger); err == nil {
		t.Error("somebody else can read it")
	}
}

func TestRecipients(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range [][]string{nil, {"age1nonsense"}, {"ssh-ed25519 nonsense"}, {identity.String()}, {identity.Recipient().String(), ""}} {
		keys, err := export.Recipients(given)
		if err == nil {
			t.Errorf("%d keys of %q", len(keys), given)
		} else if strings.Contains(err.Error(), identity.String()) || strings.Contains(err.Error(), "nonsense") {
			t.Errorf("the error repeats what was given: %v", err)
		}
	}
}

// TestSums: sha256sum --check has to understand the list.
func TestSums(t *testing.T) {
	e := made(t, deployed(t, clusterText), options(t))
	lines := strings.Split(strings.TrimSuffix(string(content(t, e.Files, export.SumsFile)), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		is := sha256.Sum256(content(t, e.Files, name))
		if sum != hex.EncodeToString(is[:]) {
			t.Errorf("%s has another sum", name)
		}
	}
}

package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/pki"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// office is a data directory with a store that is open.
type office struct {
	*testing.T
	dir   string
	state *state.State
	Server
}

func openStore(t *testing.T, dir string) *state.State {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newOffice has one cluster, with a token in it.
func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, dir: filepath.Join(t.TempDir(), "data")}
	o.state = openStore(t, o.dir)
	authority, err := pki.Open(filepath.Join(o.dir, "tls"), func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	o.Server = Server{
		Store: o.state.Store, Installation: func() string { return "an installation" }, ServerURL: func() string { return "https://drover.lan:8443" },
		Authority: authority.Checksum, Now: func() time.Time { return noon },
	}
	o.cluster("harbour")
	return o
}

func (o *office) cluster(name string) {
	o.Helper()
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: "c-m-" + name}
	if _, err := o.state.Clusters.Create(o.Context(), "fleet-default/"+name, c); err != nil {
		o.Fatal(err)
	}
}

// save makes a backup in a file.
func (o *office) save(seal Sealing, keys *Keys) string {
	o.Helper()
	path := filepath.Join(o.TempDir(), "backup")
	if _, err := Save(path, seal, func(w io.Writer) error { return o.WriteWith(o.Context(), w, keys) }); err != nil {
		o.Fatal(err)
	}
	return path
}

func (o *office) keys() *Keys {
	k := KeysIn(o.dir, "")
	return &k
}

func (o *office) restore(from string, change func(*Restore)) (Restored, error) {
	o.Helper()
	r := Restore{From: from, DataDir: filepath.Join(o.TempDir(), "restored"), Now: func() time.Time { return noon.Add(time.Hour) }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&r)
	}
	return r.Run(o.Context())
}

func private(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// TestRestore: what was written before a backup is there after its restore, what was written after it
// is not, and revisions go on beyond all that a client can have seen.
func TestRestore(t *testing.T) {
	identity := must(age.GenerateX25519Identity())(t)
	key, passphrase := private(t, identity.String()+"\n"), private(t, "correct horse battery\nstaple\n")
	for _, tc := range []struct {
		name       string
		recipients []string
		passphrase string
		with       bool
		opening    Opening
	}{
		{name: "without keys"},
		{name: "for a key", recipients: []string{identity.Recipient().String()}, with: true, opening: Opening{IdentityFile: key}},
		{name: "with a passphrase", passphrase: passphrase, with: true, opening: Opening{PassphraseFile: passphrase}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			seal := must(NewSealing(tc.recipients, tc.passphrase))(t)
			var keys *Keys
			if tc.with {
				keys = o.keys()
			}
			file := o.save(seal, keys)
			o.cluster("later")
			newest := o.state.Store.Revision()
			done := must(o.restore(file, func(r *Restore) {
				r.Opening = tc.opening
				if !tc.with {
					r.Keys = *o.keys()
				}
			}))(t)
			want := Manifest{
				Format: 1, Schema: store.Schema(), Version: drover.Version, Made: noon, Installation: "an installation", ServerURL: "https://drover.lan:8443",
				Revision: newest - 1, DataKey: o.state.Store.DataKey(), Authority: o.Authority(), Keys: tc.with,
			}
			if diff := cmp.Diff(want, done.Manifest); diff != "" || done.Clusters != 1 || done.Aside != "" {
				t.Errorf("restored %+v, manifest (-want +got):\n%s", done, diff)
			}
			again := openStore(t, done.DataDir)
			if _, ok := again.Clusters.Get("fleet-default/harbour"); !ok || len(again.Clusters.List()) != 1 {
				t.Errorf("clusters %v", again.Clusters.List())
			}
			restored, marked := again.Store.Restored()
			if !marked || restored.Revision <= newest || again.Store.Revision() <= newest || !restored.Backup.Equal(noon) || !restored.At.Equal(noon.Add(time.Hour)) {
				t.Errorf("the store says %+v (%t) at revision %d, the old one was at %d", restored, marked, again.Store.Revision(), newest)
			}
			a := must(pki.Open(filepath.Join(done.DataDir, "tls"), time.Now))(t)
			if a.Checksum() != o.Authority() {
				t.Error("the authority is another one")
			}
			if _, marked := o.state.Store.Restored(); marked {
				t.Error("a store that was not restored says that it was")
			}
		})
	}
}

// TestWhileItServes: writers go on while a backup is read slowly, and nothing of theirs is in it by halves.
func TestWhileItServes(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	slow, to := io.Pipe()
	written := make(chan error, 1)
	go func() { written <- errors.Join(o.Write(o.Context(), to, func(int64) {}), to.Close()) }()
	first := make([]byte, 4<<10)
	if _, err := io.ReadFull(slow, first); err != nil {
		t.Fatal(err)
	}
	o.cluster("meanwhile")
	path := filepath.Join(t.TempDir(), "slow")
	rest := must(io.ReadAll(slow))(t)
	if err := errors.Join(<-written, os.WriteFile(path, append(first, rest...), 0o600)); err != nil {
		t.Fatal(err)
	}
	if done := must(o.restore(path, func(r *Restore) { r.Keys = *o.keys() }))(t); done.Clusters != 1 {
		t.Errorf("it has %d clusters", done.Clusters)
	}
}

// TestRefused: each bad backup and each bad place gets a sentence with the way out, and nothing is left behind.
func TestRefused(t *testing.T) {
	t.Parallel()
	o, other := newOffice(t), newOffice(t)
	identity, stranger := must(age.GenerateX25519Identity())(t), must(age.GenerateX25519Identity())(t)
	seal := must(NewSealing([]string{identity.Recipient().String()}, ""))(t)
	plain := must(os.ReadFile(o.save(Sealing{}, nil)))(t)
	sealed := must(os.ReadFile(o.save(seal, o.keys())))(t)
	key := Opening{IdentityFile: private(t, identity.String())}
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	snapshot := bytes.Index(plain, []byte("etcd.snapshot"))
	newer := bytes.Replace(plain, fmt.Appendf(nil, `"schema": %d`, store.Schema()), fmt.Appendf(nil, `"schema": %d`, store.Schema()+1), 1)
	format := bytes.Replace(plain, []byte(`"format": 1`), []byte(`"format": 2`), 1)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.CopyFS(moved, os.DirFS(o.dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(moved, "tls", "ca.key")), os.Chmod(filepath.Join(moved, "encryption.key"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		content []byte
		opening Opening
		keys    Keys
		want    string
	}{
		{"empty", nil, Opening{}, *o.keys(), "it is cut off: copy it again"},
		{"something else", []byte(strings.Repeat("hello ", 300)), Opening{}, *o.keys(), "it is not a backup of a drover server"},
		{"another tar", tarOf(t, "etc/passwd"), Opening{}, *o.keys(), `it has an entry "etc/passwd", which backups do not have`},
		{"cut off in the snapshot", plain[:len(plain)/2], Opening{}, *o.keys(), "it is cut off: copy it again"},
		{"cut off before the sums", plain[:bytes.LastIndex(plain, []byte("SHA256SUMS"))], Opening{}, *o.keys(), "it is cut off: copy it again"},
		{"a flipped bit in the snapshot", flip(plain, snapshot+9000), Opening{}, *o.keys(), "etcd.snapshot in it was changed since it was written"},
		{"a flipped bit in the manifest", flip(plain, bytes.Index(plain, []byte("drover.lan"))), Opening{}, *o.keys(), "manifest.json in it was changed since it was written"},
		{"a newer server's documents", newer, Opening{}, *o.keys(), "which is newer than this one (" + drover.Version + "): restore it with that version"},
		{"a newer server's format", format, Opening{}, *o.keys(), "in format 2, and this drover knows format 1: restore it with drover"},
		{"no keys", plain, Opening{}, Keys{}, "it was made without keys, and nothing is of use without them (key " + o.state.Store.DataKey() + ", authority " + o.Authority() + "): give --keys DIR"},
		{"no key file", plain, Opening{}, KeysIn(t.TempDir(), ""), "and there is no key file"},
		{"another server's keys", plain, Opening{}, *other.keys(), "the key " + o.state.Store.DataKey() + " is needed"},
		{"another server's authority", plain, Opening{}, Keys{KeyFile: o.keys().KeyFile, TLSDir: other.keys().TLSDir}, "the authority that hosts have pinned is needed (checksum " + o.Authority()},
		{"half an authority", plain, Opening{}, KeysIn(moved, ""), "and there is no " + filepath.Join(moved, "tls", "ca.key")},
		{"sealed, and nothing to open it", sealed, Opening{}, Keys{}, "it is encrypted: give the private key"},
		{"sealed for somebody else", sealed, Opening{IdentityFile: private(t, stranger.String())}, Keys{}, "it is encrypted, and not for this key"},
		{"a passphrase for what has a key", sealed, Opening{PassphraseFile: private(t, "correct horse battery")}, Keys{}, "it is encrypted, and not for this key or with this passphrase"},
		{"no private key in the file", sealed, Opening{IdentityFile: private(t, "hello")}, Keys{}, "holds no private key of age"},
		{"sealed and cut off", sealed[:len(sealed)-100], key, Keys{}, "it does not decrypt: it is cut off, or was changed"},
		{"sealed and flipped", flip(sealed, len(sealed)/2), key, Keys{}, "it does not decrypt: it is cut off, or was changed"},
		{"sealed with a flipped head", flip(sealed, 60), key, Keys{}, "copy it again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "backup")
			if err := os.WriteFile(file, tc.content, 0o600); err != nil {
				t.Fatal(err)
			}
			into := t.TempDir()
			_, err := o.restore(file, func(r *Restore) { r.Opening, r.Keys, r.DataDir = tc.opening, tc.keys, filepath.Join(into, "data") })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v\nwant %q", err, tc.want)
			}
			if left := must(os.ReadDir(into))(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func tarOf(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1})
	_, err2 := w.Write([]byte("x"))
	if err := errors.Join(err, err2, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPlaces: nothing is restored over what is there, below a server that runs, or by halves.
func TestPlaces(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	file := o.save(Sealing{}, nil)
	to := func(dir string, replace bool) (Restored, error) {
		return o.restore(file, func(r *Restore) { r.Keys, r.DataDir, r.Replace = *o.keys(), dir, replace })
	}
	if _, err := to(o.dir, false); err == nil || !strings.Contains(err.Error(), "the directory holds something, and nothing is restored over it") {
		t.Errorf("into a data directory: %v", err)
	}
	if _, err := to(o.dir, true); err == nil || !strings.Contains(err.Error(), "a server uses the directory: stop it first") {
		t.Errorf("below a server: %v", err)
	}
	o.cluster("later")
	if err := o.state.Close(); err != nil {
		t.Fatal(err)
	}
	done := must(to(o.dir, true))(t)
	if want := o.dir + ".before-20261122T130000Z"; done.Aside != want || done.Clusters != 1 {
		t.Errorf("restored %+v", done)
	}
	if old := openStore(t, done.Aside); len(old.Clusters.List()) != 2 {
		t.Error("what was there before is not there any more")
	}
	empty := t.TempDir()
	must(to(empty, false))(t)
	if again := openStore(t, empty); len(again.Clusters.List()) != 1 {
		t.Error("an empty directory did not get the store")
	}
	if _, err := o.restore(filepath.Join(t.TempDir(), "nothing"), nil); err == nil || !strings.Contains(err.Error(), "open the backup") {
		t.Errorf("no file: %v", err)
	}
}

// TestSealing: bad keys and passphrases are refused without being repeated.
func TestSealing(t *testing.T) {
	t.Parallel()
	shared := private(t, "correct horse battery")
	if err := os.Chmod(shared, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		recipient, file, want string
	}{
		{"age1nonsense", "", "is not a public key"},
		{"AGE-SECRET-KEY-1QQ", "", "is a private key"},
		{"", private(t, "short\n"), "has 5 bytes: give at least 12"},
		{"", shared, "has mode 0640: others can read it"},
		{"", "/nowhere/at/all", "read the passphrase"},
		{"age1nonsense", shared, "and not both"},
	} {
		var recipients []string
		if tc.recipient != "" {
			recipients = []string{tc.recipient}
		}
		_, err := NewSealing(recipients, tc.file)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "horse") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// broken is a store that cannot be copied.
type broken struct{ err error }

func (b broken) WriteSnapshot(_ context.Context, begin func(size, revision int64) (io.Writer, error)) error {
	w, err := begin(1<<20, 7)
	if err == nil {
		_, err = w.Write(make([]byte, 1000))
	}
	return errors.Join(err, b.err)
}

func (broken) DataKey() string { return "0011223344556677" }

// TestABackupThatIsNotDurableHasNoName: a file gets its name after the disk has said that it has it, as it would be taken for a backup
// after the power failed. Of a device that cannot be synced nothing is said.
func TestABackupThatIsNotDurableHasNoName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	if err := os.Symlink(os.DevNull, path+".partial"); err != nil {
		t.Fatal(err)
	}
	_, err := Save(path, Sealing{}, func(w io.Writer) error {
		_, err := io.WriteString(w, "precious")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "sync") {
		t.Errorf("error %v", err)
	}
	if left := must(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestABackupIsThereWhenItsNameIs: its directory is synced after it got its name, which the power could take along. A process that may open
// nothing more cannot do that, and says so.
func TestABackupIsThereWhenItsNameIs(t *testing.T) {
	const alone = "DROVER_TEST_ALONE" // the limit is that of a process
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "backup")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	_, err := Save(path, Sealing{}, func(w io.Writer) error {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}); err != nil {
			return err
		}
		_, err := io.WriteString(w, "precious")
		return err
	})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSaveIsWholeOrNot: a backup that fails leaves no file, and one that is there is not replaced.
func TestSaveIsWholeOrNot(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.Store = broken{errors.New("the disk is gone")}
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	for _, keys := range []*Keys{nil, o.keys()} {
		_, err := Save(path, Sealing{}, func(w io.Writer) error { return o.WriteWith(t.Context(), w, keys) })
		if err == nil || !strings.Contains(err.Error(), "the disk is gone") && keys == nil {
			t.Errorf("error %v", err)
		}
		if left := must(os.ReadDir(dir))(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(path, Sealing{}, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "replace nothing") {
		t.Errorf("error %v", err)
	}
	if got := must(os.ReadFile(path))(t); string(got) != "precious" {
		t.Error("it was replaced")
	}
	// A backup has all secrets of a server, and is its owner's alone.
	alone := filepath.Join(t.TempDir(), "backup")
	size, err := Save(alone, Sealing{}, func(w io.Writer) error { _, err := io.WriteString(w, "whole"); return err })
	info := must(os.Stat(alone))(t)
	if err != nil || size != 5 || info.Size() != 5 || info.Mode() != 0o600 || len(must(os.ReadDir(filepath.Dir(alone)))(t)) != 1 {
		t.Errorf("%d bytes, %v: %v", size, err, info)
	}
}

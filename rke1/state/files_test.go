package state_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
)

// place is a directory for a cluster's files, with this text as its state.
func place(t *testing.T, text []byte) state.Files {
	t.Helper()
	f := state.FilesOf(filepath.Join(t.TempDir(), "cluster.yml"))
	if text != nil {
		if err := os.WriteFile(f.State, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func mustWrite(t *testing.T, f state.Files, s *state.State, at int) {
	t.Helper()
	if err := state.Write(f.State, s, state.WriteOptions{Now: birth.Add(time.Duration(at) * time.Minute)}); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(t *testing.T, f state.Files) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.State))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestLoadRefuses(t *testing.T) {
	stranger, _, err := pki.Make(cluster(), nil, pkitest.Source(birth, 8), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	change := func(do func(*state.State)) func([]byte) []byte {
		return func(text []byte) []byte {
			s, err := state.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			do(s)
			return encoded(t, s)
		}
	}
	other := cluster()
	other.Nodes = []config.Node{{Address: "192.0.2.1"}}
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		config *config.Cluster
		own    bool
		want   string // "" is well
	}{
		{name: "as written", change: func(b []byte) []byte { return b }, config: cluster()},
		{name: "one byte less", change: func(b []byte) []byte { return b[:len(b)-1] }, want: "is not JSON, at byte"},
		{name: "half", change: func(b []byte) []byte { return b[:len(b)/2] }, want: "may be cut off"},
		{name: "empty file", change: func([]byte) []byte { return []byte{} }, want: "may be cut off"},
		{name: "something behind", change: func(b []byte) []byte { return append(b, '}') }, want: "is not JSON"},
		{name: "a list", change: func([]byte) []byte { return []byte("[]") }, want: "a array where an object belongs"},
		{name: "{}", change: func([]byte) []byte { return []byte("{}") }, want: "there is no cluster in it"},
		{name: "no nodes", change: change(func(s *state.State) { s.Desired.Config = nil }), want: "desiredState.rkeConfig: has no nodes"},
		{name: "no certificates", change: change(func(s *state.State) { s.Desired.Certificates = nil }), want: "desiredState.certificatesBundle.kube-ca: has no certificate"},
		{name: "no CA key", change: change(func(s *state.State) { edit(&s.Desired, pki.CA, func(c *pki.Certificate) { c.KeyPEM = "" }) }), want: "desiredState.certificatesBundle.kube-ca: has no key"},
		{name: "no CA key, and that is meant", own: true, change: change(func(s *state.State) {
			edit(&s.Desired, pki.CA, func(c *pki.Certificate) { c.KeyPEM = "" })
			edit(&s.Current, pki.CA, func(c *pki.Certificate) { c.KeyPEM = "" })
		})},
		{name: "another CA", change: change(func(s *state.State) {
			edit(&s.Current, pki.CA, func(c *pki.Certificate) { *c = stranger[pki.CA] })
		}), want: "currentState: certificates: kube-admin is not signed by kube-ca"},
		{name: "deployed without certificates", change: change(func(s *state.State) { s.Current.Certificates = nil }), want: "currentState.certificatesBundle.kube-ca: has no certificate"},
		{name: "never deployed", change: change(func(s *state.State) { s.Current = state.Part{} })},
		{name: "PEM alone", change: change(func(s *state.State) {
			edit(&s.Desired, pki.Proxy, func(c *pki.Certificate) { c.EnvName, c.Path = "", "" })
		}), want: "kube-proxy lacks its name, its variables or its paths"},
		{name: "encrypted without the key", change: change(func(s *state.State) { s.Desired.Encryption = "" }), want: "desiredState.encryptionConfig: is missing, and Secrets are encrypted"},
		{name: "deployed and encrypted without the key", change: change(func(s *state.State) { s.Current.Encryption = "" }), want: "currentState.encryptionConfig: is missing"},
		{name: "another cluster's config", config: other, change: func(b []byte) []byte { return b }, want: "it is the state of another cluster: none of its nodes (203.0.113.10, …)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := place(t, tt.change(encoded(t, deployed(t))))
			before := content(t, f.State)
			s, _, err := state.Load(f, state.Against{Config: tt.config, OwnCertificates: tt.own})
			if tt.want == "" {
				if err != nil || s == nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "Secret kube-system/full-cluster-state") || !strings.Contains(err.Error(), f.State) {
				t.Fatalf("error %v, want %q in it, the file and the way out", err, tt.want)
			}
			if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("the error says that there is none, or quotes: %v", err)
			}
			if !bytes.Equal(before, content(t, f.State)) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestLoadWithoutAFile(t *testing.T) {
	f := place(t, nil)
	if _, _, err := state.Load(f, state.Against{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new cluster: %v", err)
	}
	if err := os.WriteFile(f.Kubeconfig, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := state.Load(f, state.Against{}); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "says that there is a cluster") {
		t.Errorf("beside a kubeconfig: %v", err)
	}
}

func TestLoadNamesTheLastGoodBackup(t *testing.T) {
	f := place(t, nil)
	s := deployed(t)
	for i := range 4 {
		s = next(t, s, cluster(), birth.Add(time.Duration(i)*time.Hour), 1+i)
		mustWrite(t, f, s, i)
	}
	backups, err := state.Backups(f.State)
	if err != nil || len(backups) != 3 {
		t.Fatalf("%v, %v", backups, err)
	}
	mustPut(t, f.State, []byte(`{"desiredState": {`))
	mustPut(t, backups[0], []byte(`{"desiredState": {`))
	mustPut(t, backups[1], []byte(`{}`))
	if _, _, err := state.Load(f, state.Against{}); err == nil || !strings.Contains(err.Error(), "the last good state is "+backups[2]) {
		t.Errorf("%v", err)
	}
}

func TestWriteKeepsTheOnesBefore(t *testing.T) {
	f := place(t, nil)
	s := deployed(t)
	var texts [][]byte
	for i := range 13 {
		s = next(t, s, cluster(), birth.Add(time.Duration(i)*time.Hour), 1+i)
		mustWrite(t, f, s, i)
		mustWrite(t, f, s, i+100) // equal, and so not kept a second time
		texts = append(texts, content(t, f.State))
	}
	backups, err := state.Backups(f.State)
	if err != nil || len(backups) != 10 {
		t.Fatalf("%d backups, %v", len(backups), err)
	}
	for i, path := range append([]string{f.State}, backups...) {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
		if !bytes.Equal(content(t, path), texts[len(texts)-1-i]) {
			t.Errorf("%s is not the state of run %d", path, len(texts)-1-i)
		}
	}
	if want := f.State + ".bak-20240203T041706.000000Z"; backups[0] != want {
		t.Errorf("the last is %s, want %s", backups[0], want)
	}
}

func TestWriteRefusesAWorseOne(t *testing.T) {
	good := deployed(t)
	strange, _, err := pki.Make(cluster(), nil, pkitest.Source(birth, 8), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := state.Next(nil, cluster(), strange, random())
	if err != nil {
		t.Fatal(err)
	}
	without := *good
	edit(&without.Desired, pki.CA, func(c *pki.Certificate) { c.KeyPEM = "" })
	for _, tt := range []struct {
		name    string
		there   []byte
		s       *state.State
		options state.WriteOptions
		want    string // "" is written
	}{
		{name: "over nothing", s: good},
		{name: "over another run", there: encoded(t, good), s: next(t, good, cluster(), birth, 9)},
		{name: "another CA", there: encoded(t, good), s: foreign, want: "no CA in common"},
		{name: "another CA, and that is meant", there: encoded(t, good), s: foreign, options: state.WriteOptions{Replace: true}},
		{name: "without the CA key", there: encoded(t, good), s: &without, want: "has no key"},
		{name: "without the CA key, with own certificates", there: encoded(t, good), s: &without, options: state.WriteOptions{OwnCertificates: true}, want: "lacks the key of kube-ca"},
		{name: "nothing in it", there: encoded(t, good), s: &state.State{}, want: "there is no cluster in it"},
		{name: "over half a file", there: encoded(t, good)[:3000], s: good, want: "something that is not a state"},
		{name: "over another JSON", there: []byte(`{"a": 1}`), s: good, want: "something that is not a state"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := place(t, tt.there)
			tt.options.Now = birth
			err := state.Write(f.State, tt.s, tt.options)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(content(t, f.State), encoded(t, tt.s)) {
					t.Error("something else was written")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			if !bytes.Equal(content(t, f.State), tt.there) {
				t.Error("the file was changed")
			}
			if all := names(t, f); len(all) != 1 {
				t.Errorf("left behind: %v", all)
			}
		})
	}
}

// TestWriteKilled stops after each step, with half a temporary file of the next one there: the state that
// is found is the one before or the new one, and the next Write ends well.
func TestWriteKilled(t *testing.T) {
	one := deployed(t)
	two := next(t, one, cluster(), birth.Add(time.Hour), 9)
	oldText, newText := encoded(t, one), encoded(t, two)
	for kill := 0; ; kill++ {
		f := place(t, oldText)
		for i := range 12 { // old backups, of which the oldest go
			mustPut(t, f.State+birth.Add(time.Duration(i)*time.Hour).Format(".bak-20060102T150405.000000Z"), oldText)
		}
		all := state.Steps(f.State, oldText, newText, birth.Add(100*time.Hour))
		if kill > len(all) {
			break
		}
		for _, step := range all[:kill] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		mustPut(t, f.State+".tmp", newText[:len(newText)/2])
		read, _, err := state.Load(f, state.Against{Config: cluster()})
		if err != nil {
			t.Fatalf("after %d steps: %v", kill, err)
		}
		if got := encoded(t, read); !bytes.Equal(got, oldText) && !bytes.Equal(got, newText) {
			t.Errorf("after %d steps there is a third state", kill)
		}
		backups, err := state.Backups(f.State)
		if err != nil || len(backups) < 9 {
			t.Errorf("after %d steps: %d backups, %v", kill, len(backups), err)
		}
		mustWrite(t, f, two, 101*60)
		if !bytes.Equal(content(t, f.State), newText) {
			t.Errorf("killed after %d steps, it was not written then", kill)
		}
	}
}

func mustPut(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWriteWithoutSpace has the system refuse to write more than half a state, in a process of its own.
func TestWriteWithoutSpace(t *testing.T) {
	if path := os.Getenv("STATE_TO_WRITE"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		s, err := state.Decode(content(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 20_000, Max: 20_000}); err != nil {
			t.Fatal(err)
		}
		later := next(t, s, cluster(), birth.Add(time.Hour), 9)
		if err := state.Write(path, later, state.WriteOptions{Now: birth}); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("error %v, want that of the system", err)
		}
		return
	}
	text := encoded(t, deployed(t))
	f := place(t, text)
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteWithoutSpace$", "-test.v")
	run.Env = append(os.Environ(), "STATE_TO_WRITE="+f.State)
	if out, err := run.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestWriteWithoutSpace")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Equal(content(t, f.State), text) {
		t.Error("the state before is not whole")
	}
	if diff := cmp.Diff([]string{"cluster.rkestate"}, names(t, f)); diff != "" {
		t.Error(diff)
	}
}

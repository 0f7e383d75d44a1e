package snapshots

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"
)

// data are those of a snapshot of etcd.
func data(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"key", "meta"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return append(text, sum[:]...)
}

// pack is an archive with these members.
func pack(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, text := range members {
		w, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestExamine(t *testing.T) {
	good := data(t)
	whole := pack(t, map[string][]byte{"/backup/one": good, "/etc/kubernetes/one.rkestate": []byte("{}")})
	for _, tt := range []struct {
		name    string
		archive []byte
		state   bool
		want    string // of the error
	}{
		{"with the state", whole, true, ""},
		{"without", pack(t, map[string][]byte{"/backup/one": good}), false, ""},
		{"of an unpacker that leaves out slashes", pack(t, map[string][]byte{"backup/one": good, "etc/kubernetes/one.rkestate": []byte("{}")}), true, ""},
		{"cut off", whole[:len(whole)/2], false, "cannot be opened"},
		{"empty", nil, false, "cannot be opened"},
		{"of another name", pack(t, map[string][]byte{"/backup/two": good}), false, "has to get its name back"},
		{"data that were cut off", pack(t, map[string][]byte{"/backup/one": good[:len(good)-9]}), false, "it was cut off"},
		{"data of something else", pack(t, map[string][]byte{"/backup/one": []byte("text")}), false, "not a whole snapshot"},
	} {
		s, err := Examine(t.Context(), bytes.NewReader(tt.archive), int64(len(tt.archive)), "one", t.TempDir())
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && (err != nil || s.State != tt.state || s.Sum == "" || !s.Archive) {
			t.Errorf("%s: %+v, %v", tt.name, s, err)
		}
	}
}

func TestSeries(t *testing.T) {
	for name, want := range map[string]string{
		"c-abc12-rs-x1":                        "c-abc12-rs-x2.zip",
		"c-abc12-rl-x1":                        "c-abc12-rl-x2.zip",
		"mine":                                 "",
		"rke_etcd_snapshot_2026-01-01T00:00Z":  "",
		"c-abc12-ms-mine":                      "",
		"2026-01-01T00:00:00Z_etcd":            "", // those of etcd-rolling-snapshots, which removes them itself
		"c-abc12-rs-x1/../c-other-rs-x2":       "c-abc12-rs-x2.zip",
		"c-abc12-rs-":                          "c-abc12-rs-x2.zip",
		"c-abc12-release":                      "",
		"c-abc12-recurring-2026-01-01T00-00-0": "c-abc12-recurring-2.zip",
	} {
		var in []string
		if series := Series(name); series != nil {
			for _, file := range []string{"c-abc12-rs-x2.zip", "c-abc12-rl-x2.zip", "c-other-rs-x2.zip", "mine.zip", "c-abc12-rs-x2", "c-abc12-recurring-2.zip"} {
				if series(file) {
					in = append(in, file)
				}
			}
		}
		if got := strings.Join(in, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestReadList(t *testing.T) {
	got := readList("12 1700000000 one\n13 1700000001 2026-01-01T00:00:00Z_etcd\n\nx y z\n14\n")
	want := []Archive{{"one", 12, time.Unix(1700000000, 0)}, {"2026-01-01T00:00:00Z_etcd", 13, time.Unix(1700000001, 0)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The script runs in the shell of the helper image, which is busybox.
func TestInspectScript(t *testing.T) {
	good := data(t)
	flipped := bytes.Clone(good)
	flipped[5000] ^= 1
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"one.zip":   pack(t, map[string][]byte{"/backup/one": good, "/etc/kubernetes/one.rkestate": []byte("{}")}),
		"two.zip":   pack(t, map[string][]byte{"/backup/two": flipped}),
		"three.zip": pack(t, map[string][]byte{"/backup/three": good})[:300],
		"four":      good,
		"five.zip":  pack(t, map[string][]byte{"/backup/five": good[:len(good)-32]}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(good))
	for name, want := range map[string]*Snapshot{
		"one":   {Host: "a", Sum: sum, Archive: true, State: true},
		"two":   {Host: "a", Archive: true, Broken: true},
		"three": {Host: "a", Broken: true},
		"four":  {Host: "a", Sum: sum},
		"five":  {Host: "a", Archive: true, Broken: true},
		"six":   nil,
	} {
		out, err := exec.CommandContext(t.Context(), "busybox", "sh", "-c", inspect, "inspect", name, dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		is, others := readSnapshot("a", strings.Split(string(out), "\n"))
		if diff := cmp.Diff(want, is, cmpopts.IgnoreFields(Snapshot{}, "Size")); diff != "" || len(others) < 3 {
			t.Errorf("%s: %v\n%s%s", name, others, out, diff)
		}
	}
}

// The newest archive that has a state is looked for by the shell, too.
func TestNewestScript(t *testing.T) {
	dir := t.TempDir()
	noon := time.Unix(1700000000, 0)
	for name, text := range map[string][]byte{
		"one.zip":   pack(t, map[string][]byte{"/backup/one": nil, "/etc/kubernetes/one.rkestate": []byte("{}\n\n")}),
		"two.zip":   pack(t, map[string][]byte{"/backup/two": nil}),
		"three.zip": []byte("PK"),
		"four.zip":  pack(t, map[string][]byte{"/etc/kubernetes/four.rkestate": []byte("older")}),
		"five":      []byte("data"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		at := noon.Add(time.Hour)
		if name == "one.zip" {
			at = noon
		} else if name == "four.zip" {
			at = noon.Add(-time.Hour)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	find := func(in string) *WithState {
		out := t.TempDir()
		script := strings.ReplaceAll(newest, "/tmp/", out+"/")
		if text, err := exec.CommandContext(t.Context(), "busybox", "sh", "-c", script, "newest", in).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		text, err := os.ReadFile(filepath.Join(out, "newest"))
		if err != nil {
			t.Fatal(err)
		}
		return readNewest(text)
	}
	want := &WithState{Archive: Archive{Name: "one", Changed: noon}, State: []byte("{}\n\n")}
	if diff := cmp.Diff(want, find(dir), cmpopts.IgnoreFields(Archive{}, "Size")); diff != "" {
		t.Error(diff)
	}
	if found := find(filepath.Join(dir, "missing")); found != nil {
		t.Errorf("in a directory that is not there: %+v", found)
	}
}

package etcddata_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/drover-project/drover/installers/snapshots/etcddata"
)

// snapshot is a real one, of an etcd that has a key.
func snapshot(t *testing.T) []byte {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.LogOutputs = t.TempDir(), "error", []string{filepath.Join(t.TempDir(), "log")}
	c.ListenClientUrls, c.ListenPeerUrls = nil, nil
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	from := e.Server.Backend().Snapshot()
	defer from.Close()
	var text bytes.Buffer
	if _, err := from.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return sealed(text.Bytes())
}

// sealed are data with their checksum after them, as etcd sends a snapshot.
func sealed(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sum[:]...)
}

// database is a database of bbolt with some buckets.
func database(t *testing.T, buckets ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			if err := b.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x07_\x00\x00\x00\x00\x00\x00\x00\x01"), []byte("value")); err != nil {
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
	return text
}

func TestCheck(t *testing.T) {
	actual, made := snapshot(t), database(t, "key", "meta")
	pages := bytes.Clone(made) // the meta pages lead to one that is none
	for i := 2 * os.Getpagesize(); i < len(pages); i++ {
		pages[i] = 0xff
	}
	for _, tt := range []struct {
		name     string
		text     []byte
		revision int64
		want     string
	}{
		{"a real one", actual, -1, ""},
		{"a revision", sealed(made), 7, ""},
		{"nothing", nil, 0, "it is empty"},
		{"the file of a member", made, 0, "copied from a member"},
		{"cut off", actual[:len(actual)-100], 0, "was cut off"},
		{"cut off at a page", actual[:len(actual)-os.Getpagesize()], 0, "not those that etcd sent"},
		{"one bit", append([]byte{actual[0] ^ 1}, actual[1:]...), 0, "not those that etcd sent"},
		{"sealed garbage", sealed(make([]byte, 1<<16)), 0, "does not open as a database"},
		{"a sealed half", sealed(made[:len(made)/2]), 0, "does not open as a database"},
		{"sealed pages of nothing", sealed(pages), 0, "does not open as a database"},
		{"a database of another program", sealed(database(t, "key", "other")), 0, "lacks the bucket key or meta"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			info, err := etcddata.Check(t.Context(), bytes.NewReader(tt.text), dir)
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && err != nil {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			sum := sha256.Sum256(tt.text)
			if err == nil && (info.Size != int64(len(tt.text)) || info.Sum != hex.EncodeToString(sum[:]) || tt.revision >= 0 && info.Revision != tt.revision) {
				t.Errorf("got %+v", info)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

func TestCheckStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := etcddata.Check(ctx, bytes.NewReader(make([]byte, 10)), t.TempDir()); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
	if _, err := etcddata.Check(t.Context(), bytes.NewReader(nil), filepath.Join(t.TempDir(), "gone")); err == nil || !strings.Contains(err.Error(), "make a temporary file") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

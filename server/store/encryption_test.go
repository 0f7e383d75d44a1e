package store

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/server/store/keyring"
)

// The secret is nowhere: not in etcd's value, not in any file of the data directory.
func TestEncryptedAtRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, notes, secrets := openNotes(t, dir)
	const open, hidden = "everybody-may-read-this", "nobody-may-read-this"
	must(notes.Create(t.Context(), "a", note{Text: open}))(t)
	d := must(secrets.Create(t.Context(), "a", note{Text: hidden}))(t)
	d.Value.Body = []byte(hidden)
	must(secrets.Update(t.Context(), d))(t)
	raw := must(s.client.Get(t.Context(), documentKey("secrets", "a")))(t).Kvs[0].Value
	if !keyring.IsSealed(raw) || bytes.Contains(raw, []byte(hidden)) || bytes.Contains(raw, []byte("text")) {
		t.Errorf("etcd holds %q", raw)
	}
	closeStore(t, s)

	var found []string
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for _, needle := range []string{hidden, "bm9ib2R5LW1heS1yZWFkLXRoaXM"} { // and as base64
			if bytes.Contains(content, []byte(needle)) {
				t.Errorf("%s holds the secret", path)
			}
		}
		if bytes.Contains(content, []byte(open)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || files < 4 || len(found) == 0 {
		t.Errorf("of %d files %v hold the text that is not secret (%v): this test looked in the wrong place", files, found, err)
	}
}

// A record that was put under another key in etcd is refused, as is one that was
// replaced by plain JSON.
func TestSwappedRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		swap func(other []byte) []byte
	}{
		{"record of another key", func(other []byte) []byte { return other }},
		{"plain JSON", func([]byte) []byte { return []byte(`{"text":"mine"}`) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, _, secrets := openNotes(t, dir)
			must(secrets.Create(t.Context(), "admin", note{Text: "a"}))(t)
			must(secrets.Create(t.Context(), "guest", note{Text: "b"}))(t)
			guest := must(s.client.Get(t.Context(), documentKey("secrets", "guest")))(t).Kvs[0].Value
			must(s.client.Put(t.Context(), documentKey("secrets", "admin"), string(c.swap(guest))))(t)
			<-s.Failed()
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), "read secrets/admin at revision") {
				t.Errorf("the running store ended with %v", err)
			}
			if _, err := secrets.Create(t.Context(), "more", note{}); err == nil {
				t.Error("the failed store takes writes")
			}
			closeStore(t, s)
			if _, err := openWith(t.Context(), Options{DataDir: dir}, nil, NewCollection[note]("secrets", true)); err == nil ||
				!strings.Contains(err.Error(), "read secrets/admin at revision") {
				t.Errorf("it opens again with error %v", err)
			}
		})
	}
}

func TestDamagedSecretIsNotShown(t *testing.T) {
	t.Parallel()
	s, _, secrets := openNotes(t, t.TempDir())
	key := documentKey("secrets", "a")
	must(s.client.Put(t.Context(), key, string(must(s.keys.Seal(key, []byte(`{"text":4242424242}`)))(t))))(t)
	<-s.Failed()
	if err := s.Err(); strings.Contains(err.Error(), "4242") {
		t.Errorf("the error shows the secret: %v", err)
	}
	if len(secrets.List()) != 0 {
		t.Error("the document was taken")
	}
}

// Errors of encoding/json quote numbers that do not fit and times that are none.
func TestDecodeErrorsQuoteNoSecret(t *testing.T) {
	t.Parallel()
	type dated struct {
		When time.Time `json:"when"`
		Pin  int8      `json:"pin"`
	}
	for _, value := range []string{`{"when":"hunter2-4242"}`, `{"pin":42424242}`} {
		var into dated
		if err := json.Unmarshal([]byte(value), &into); err == nil || !strings.Contains(err.Error(), "4242") {
			t.Fatalf("the error of encoding/json does not quote the value, so that this test tests nothing: %v", err)
		}
		dir := t.TempDir()
		s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, nil, NewCollection[dated]("secrets", true))
		if err != nil {
			t.Fatal(err)
		}
		key := documentKey("secrets", "a")
		must(s.client.Put(t.Context(), key, string(must(s.keys.Seal(key, []byte(value)))(t))))(t)
		<-s.Failed()
		running := s.Err()
		closeStore(t, s)
		_, opening := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, nil, NewCollection[dated]("secrets", true))
		for _, err := range []error{running, opening} {
			if err == nil || strings.Contains(err.Error(), "4242") || !strings.Contains(err.Error(), "read secrets/a at revision") {
				t.Errorf("error %v", err)
			}
		}
	}
}

// No two records, of whatever keys and restarts, share a nonce.
func TestNoncesDiffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := make(map[string]bool)
	for range 2 {
		s, _, secrets := openNotes(t, dir)
		for range 50 {
			_, err := secrets.Create(t.Context(), "a", note{})
			if is[*ExistsError](err) {
				_, err = secrets.Modify(t.Context(), "a", func(n note) (note, error) { return n, nil })
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for revision := s.Revision(); revision > s.Revision()-50; revision-- {
			value := must(s.client.Get(t.Context(), documentKey("secrets", "a"), clientv3.WithRev(revision)))(t).Kvs[0].Value
			seen[string(value)] = true // of the same document, with the same key: two with one nonce are the same
		}
		closeStore(t, s)
	}
	if len(seen) != 100 {
		t.Errorf("100 records have %d nonces", len(seen))
	}
}

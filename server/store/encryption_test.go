package store

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func testKey(tb testing.TB, fill byte) *recordKey {
	tb.Helper()
	return must(newRecordKey([keySize]byte(bytes.Repeat([]byte{fill}, keySize))))(tb)
}

func testRing(tb testing.TB, fills ...byte) *keyring {
	tb.Helper()
	ring := &keyring{path: "/keys", all: make(map[keyID]*recordKey)}
	for _, fill := range fills {
		key := testKey(tb, fill)
		ring.all[key.id] = key
		if ring.first == nil {
			ring.first = key
		}
	}
	return ring
}

// The test vectors of c2sp.org/XAES-256-GCM.
func TestCipher(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		fill       byte
		additional string
		want       string
	}{
		{"first bit of the subkey clear", 1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{"first bit of the subkey set", 3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
			key := testKey(t, c.fill)
			sealed := must(key.seal(nil, nonce, []byte("XAES-256-GCM"), []byte(c.additional)))(t)
			if got := hex.EncodeToString(sealed); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if plain := must(key.open(nonce, sealed, []byte(c.additional)))(t); string(plain) != "XAES-256-GCM" {
				t.Errorf("got back %q", plain)
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	ring := testRing(t, 1, 2)
	record := must(ring.seal("/a", []byte("hello")))(t)
	if again := must(ring.seal("/a", []byte("hello")))(t); bytes.Equal(record[headerSize:headerSize+nonceSize], again[headerSize:headerSize+nonceSize]) {
		t.Error("two records have one nonce")
	}
	if got := must(ring.open("/a", record))(t); string(got) != "hello" {
		t.Errorf("got back %q", got)
	}
	changed := func(at int) []byte {
		other := bytes.Clone(record)
		other[at] ^= 1
		return other
	}
	for _, c := range []struct {
		name   string
		ring   *keyring
		key    string
		record []byte
		want   string // a part of the error
	}{
		{"other place", ring, "/b", record, "damaged, or written for another key"},
		{"changed nonce", ring, "/a", changed(headerSize), "damaged"},
		{"changed text", ring, "/a", changed(headerSize + nonceSize), "damaged"},
		{"changed tag", ring, "/a", changed(len(record) - 1), "damaged"},
		{"changed key id", ring, "/a", changed(5), "which is not in /keys"},
		{"newer form", ring, "/a", changed(3), "of form 0"},
		{"not encrypted", ring, "/a", []byte(`{"a":1}`), "should be encrypted and is not"},
		{"empty", ring, "/a", nil, "should be encrypted and is not"},
		{"cut off", ring, "/a", record[:smallestSeal-1], "cut off"},
		{"cut off in the text", ring, "/a", record[:len(record)-1], "damaged"},
		{"key taken away", testRing(t, 2), "/a", record, "is encrypted with key " + testKey(t, 1).id.String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, err := c.ring.open(c.key, c.record)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and error %v, want one with %q", plain, err, c.want)
			}
		})
	}
}

// Whatever is in etcd, reading it ends with an error or with what was sealed.
func FuzzOpenRecord(f *testing.F) {
	ring := testRing(f, 1)
	const place = "/drover/d/secrets/a"
	record := must(ring.seal(place, []byte(`{"text":"a"}`)))(f)
	f.Add(record)
	f.Add(record[:smallestSeal])
	f.Add([]byte(`{"text":"a"}`))
	f.Add([]byte(recordMagic))
	f.Add(append([]byte(recordMagic), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		plain, err := ring.open(place, input)
		switch {
		case bytes.Equal(input, record) && string(plain) != `{"text":"a"}`:
			t.Errorf("got back %q and error %v", plain, err)
		case !bytes.Equal(input, record) && err == nil:
			t.Errorf("a record that nobody sealed opens to %q", plain)
		}
	})
}

// A key file from outside is refused or gives keys that seal and open.
func FuzzParseKeys(f *testing.F) {
	line := testKey(f, 1).line()
	f.Add([]byte(line))
	f.Add([]byte("# comment\n\n" + line + testKey(f, 2).line()))
	f.Add([]byte("drover-key 00 AAAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := parseKeys(text)
		if err != nil {
			return
		}
		sealed := must(ring.seal("/a", text))(t)
		if got := must(ring.open("/a", sealed))(t); !bytes.Equal(got, text) {
			t.Error("the keys do not open what they sealed")
		}
	})
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	one, two := testKey(t, 1), testKey(t, 2)
	for _, c := range []struct{ name, text, want string }{
		{"none", "# nothing\n", "it holds no key"},
		{"twice", one.line() + two.line() + one.line(), "line 3: key " + one.id.String() + " appears twice"},
		{"no id", "drover-key AAAA\n", `line 1: expected "drover-key", an id and a secret`},
		{"other word", "# x\n\n" + strings.Replace(one.line(), "drover", "other", 1), "line 3: expected"},
		{"short secret", "drover-key 0102030405060708 AAAA\n", "line 1: the secret is not 32 bytes in base64"},
		{"other id", strings.Replace(one.line(), one.id.String(), two.id.String(), 1), "line 1: id and secret do not belong together"},
		{"long line", strings.Repeat("x", 70_000), "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseKeys([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if secret := strings.Fields(one.line())[2]; err != nil && strings.Contains(err.Error(), secret) {
				t.Error("the error shows a key")
			}
		})
	}
	ring := must(parseKeys([]byte("\n# a\n" + two.line() + "  " + one.line())))(t)
	if ring.first.id != two.id || len(ring.all) != 2 {
		t.Errorf("first key %s of %d, want %s of 2", ring.first.id, len(ring.all), two.id)
	}
	line := must(NewKey())(t)
	if ring := must(parseKeys([]byte(line)))(t); ring.first.line() != line {
		t.Error("a new key does not read back")
	}
}

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
	if !bytes.HasPrefix(raw, []byte(recordMagic)) || bytes.Contains(raw, []byte(hidden)) || bytes.Contains(raw, []byte("text")) {
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
			if _, err := Open(t.Context(), Options{DataDir: dir}, NewCollection[note]("secrets", true)); err == nil ||
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
	must(s.client.Put(t.Context(), key, string(must(s.keys.seal(key, []byte(`{"text":4242424242}`)))(t))))(t)
	<-s.Failed()
	if err := s.Err(); strings.Contains(err.Error(), "4242") {
		t.Errorf("the error shows the secret: %v", err)
	}
	if len(secrets.List()) != 0 {
		t.Error("the document was taken")
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "encryption.key")
	s, _, secrets := openNotes(t, dir)
	for _, key := range []string{"a", "b"} {
		must(secrets.Create(t.Context(), key, note{Text: key}))(t)
	}
	before := secrets.List()
	oldID := s.keys.first.id
	closeStore(t, s)

	text := must(os.ReadFile(path))(t)
	oldLine := s.keys.first.line()
	if !strings.HasSuffix(string(text), oldLine) {
		t.Fatalf("the key file does not end with its key")
	}
	newLine := must(NewKey())(t)
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keyIDs := func(s *Store) []keyID {
		var ids []keyID
		for _, key := range []string{canaryKey, documentKey("secrets", "a"), documentKey("secrets", "b")} {
			ids = append(ids, must(recordKeyID(must(s.client.Get(t.Context(), key))(t).Kvs[0].Value))(t))
		}
		return ids
	}

	rewrite(oldLine + newLine) // known to all
	s, _, secrets = openNotes(t, dir)
	if diff := cmp.Diff([]keyID{oldID, oldID, oldID}, keyIDs(s)); diff != "" {
		t.Error(diff)
	}
	closeStore(t, s)

	rewrite(newLine + oldLine) // used by all
	s, _, secrets = openNotes(t, dir)
	newID := s.keys.first.id
	if diff := cmp.Diff([]keyID{newID, newID, newID}, keyIDs(s)); diff != "" || newID == oldID {
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
	_, err := Open(t.Context(), Options{DataDir: dir}, NewCollection[note]("secrets", true))
	if err == nil || !strings.Contains(err.Error(), "the key file "+path+" does not belong to this store") || !strings.Contains(err.Error(), newID.String()) {
		t.Errorf("with the old key alone Open gives %v", err)
	}
}

func TestKeyFileRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "encryption.key")
	s, _, _ := openNotes(t, dir)
	id := s.keys.first.id.String()
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
		{"another key", func() error { return writeMode(path, []byte(testKey(t, 1).line()), 0o600) }, []string{path, "does not belong", id}},
		{"of another user", func() error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
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
			_, err := Open(t.Context(), Options{DataDir: dir}, NewCollection[note]("secrets", true))
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
			seen[string(value[headerSize:headerSize+nonceSize])] = true
		}
		closeStore(t, s)
	}
	if len(seen) != 100 {
		t.Errorf("100 records have %d nonces", len(seen))
	}
}

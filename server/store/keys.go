package store

// This file holds the key file: text, one key a line, the first of which encrypts.
//
//	# comment
//	drover-key <id, 16 hex digits> <secret, 32 bytes in base64>
//
// To rotate, put a new key into the file of every server, below the other lines, and
// restart them; then move it to the top everywhere and restart them. The first start
// after that encrypts everything with it, and the old key can be taken out.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	keyLine        = "drover-key"
	maxKeyFileSize = 64 << 10
	keyFileHead    = `# The keys that encrypt drover's secrets in its store. Keep a copy in a safe place: without
# this file they are lost. The first key encrypts, all of them decrypt.
`
	// canary is what is encrypted below canaryKey, to recognise the right key file even
	// while no sensitive document exists.
	canary = "drover"
)

// readKeys reads the key file, or makes it when this store has never had one.
func (s *Store) readKeys(ctx context.Context) error {
	path := s.options.KeyFile
	stored, err := s.client.Get(ctx, canaryKey)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", canaryKey, err)
	}
	ring, err := readKeyFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(stored.Kvs) > 0:
		return fmt.Errorf("the secrets%s are encrypted and the key file %s is missing: put back the file that holds %s",
			s.where(), path, describeKey(stored.Kvs[0].Value))
	case errors.Is(err, fs.ErrNotExist):
		if ring, err = makeKeyFile(path); err != nil {
			return err
		}
		s.log.Info("made the key of the encryption at rest: keep a copy of it in a safe place", "path", path)
	case err != nil:
		return err
	}
	s.keys = ring
	return s.checkCanary(ctx, stored)
}

// describeKey names the key of a record as well as can be.
func describeKey(record []byte) string {
	id, _, err := readHeader(record)
	if err != nil {
		return "its key"
	}
	return "key " + id.String()
}

// checkCanary refuses a key file that does not belong to the store, and leaves the
// canary encrypted with the first key.
func (s *Store) checkCanary(ctx context.Context, stored *clientv3.GetResponse) error {
	condition := clientv3.Compare(clientv3.CreateRevision(canaryKey), "=", 0)
	if len(stored.Kvs) > 0 {
		kv := stored.Kvs[0]
		plain, err := s.keys.open(canaryKey, kv.Value)
		if err != nil {
			return fmt.Errorf("the key file %s does not belong to this store: %w", s.keys.path, err)
		}
		if string(plain) != canary {
			return fmt.Errorf("%s in etcd holds something else than drover's mark: the store is damaged", canaryKey)
		}
		if id, _, err := readHeader(kv.Value); err == nil && id == s.keys.first.id {
			return nil
		}
		condition = clientv3.Compare(clientv3.ModRevision(canaryKey), "=", kv.ModRevision)
	}
	sealed, err := s.keys.seal(canaryKey, []byte(canary))
	if err != nil {
		return err
	}
	response, err := s.client.Txn(ctx).If(condition).Then(clientv3.OpPut(canaryKey, string(sealed))).
		Else(clientv3.OpGet(canaryKey)).Commit()
	if err != nil {
		return fmt.Errorf("write %s to etcd: %w", canaryKey, err)
	}
	if response.Succeeded {
		return nil
	}
	// Another server of the same etcd was quicker: it must have a key in common.
	kvs := response.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return fmt.Errorf("%s vanished from etcd while the store was opened: start again", canaryKey)
	}
	if _, err := s.keys.open(canaryKey, kvs[0].Value); err != nil {
		return fmt.Errorf("another server has just begun this store with its own key: copy its key file over %s: %w", s.keys.path, err)
	}
	return nil
}

// readKeyFile reads a key file. One that others may read or change is refused.
func readKeyFile(path string) (*keyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the key file %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("the key file %s has mode %04o: others can read the keys; chmod 600 it", path, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("the key file %s belongs to user %d and the server runs as user %d: chown it", path, stat.Uid, os.Geteuid())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(text) > maxKeyFileSize {
		return nil, fmt.Errorf("the key file %s is larger than %d bytes", path, maxKeyFileSize)
	}
	ring, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	ring.path = path
	return ring, nil
}

// parseKeys reads the text of a key file. Errors name lines and never show them.
func parseKeys(text []byte) (*keyring, error) {
	ring := &keyring{all: make(map[keyID]*recordKey)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := parseKeyLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if ring.all[key.id] != nil {
			return nil, fmt.Errorf("line %d: key %s appears twice", n, key.id)
		}
		ring.all[key.id] = key
		if ring.first == nil {
			ring.first = key
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("a line is too long: %w", err)
	}
	if ring.first == nil {
		return nil, errors.New("it holds no key")
	}
	return ring, nil
}

func parseKeyLine(line string) (*recordKey, error) {
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != keyLine {
		return nil, fmt.Errorf("expected %q, an id and a secret", keyLine)
	}
	secret, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil || len(secret) != keySize {
		return nil, fmt.Errorf("the secret is not %d bytes in base64", keySize)
	}
	key, err := newRecordKey([keySize]byte(secret))
	if err != nil {
		return nil, err
	}
	if key.id.String() != words[1] {
		return nil, errors.New("id and secret do not belong together: the line was damaged")
	}
	return key, nil
}

func (k *recordKey) line() string {
	return fmt.Sprintf("%s %s %s\n", keyLine, k.id, base64.StdEncoding.EncodeToString(k.secret[:]))
}

// NewKey makes a key and returns it as a line of the key file, for rotation. The line is
// a secret.
func NewKey() (string, error) {
	key, err := makeKey()
	if err != nil {
		return "", err
	}
	return key.line(), nil
}

func makeKey() (*recordKey, error) {
	var secret [keySize]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return newRecordKey(secret)
}

// makeKeyFile makes a key and its file. A file that appears meanwhile is not touched.
func makeKeyFile(path string) (*keyring, error) {
	key, err := makeKey()
	if err != nil {
		return nil, err
	}
	// Written whole under another name first: a crash must not leave half a key.
	temporary, err := os.CreateTemp(filepath.Dir(path), ".encryption-key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the key file: %w", err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(keyFileHead + key.line())
	if err == nil {
		err = temporary.Sync()
	}
	if err := errors.Join(err, temporary.Close()); err != nil {
		return nil, fmt.Errorf("write the key file: %w", err)
	}
	if err := os.Link(temporary.Name(), path); err != nil { // unlike a rename this replaces nothing
		return nil, fmt.Errorf("make the key file: %w", err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make the key file: %w", err)
	}
	return &keyring{path: path, first: key, all: map[keyID]*recordKey{key.id: key}}, nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

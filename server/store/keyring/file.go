package keyring

// This file holds the key file: text, one key a line, the first of which encrypts.
//
//	# comment
//	drover-key <id, 16 hex digits> <secret, 32 bytes in base64>

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	keyLine        = "drover-key"
	maxKeyFileSize = 64 << 10
	keyFileHead    = `# The keys that encrypt drover's secrets in its store. Keep a copy in a safe place: without
# this file they are lost. The first key encrypts, all of them decrypt.
`
)

// Read reads a key file. One that others may read or change is refused, unless it is a credential of the unit; a missing one is an fs.ErrNotExist.
func Read(path string) (*Ring, error) {
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
	// systemd lets the user of a unit read a credential by an access control list, which shows as rights of a group.
	credential := filepath.Dir(path) == os.Getenv("CREDENTIALS_DIRECTORY")
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !credential {
		return nil, fmt.Errorf("the key file %s has mode %04o: others can read the keys; chmod 600 it", path, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() && !credential {
		return nil, fmt.Errorf("the key file %s belongs to user %d and the server runs as user %d: chown it", path, stat.Uid, os.Geteuid())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	if len(text) > maxKeyFileSize {
		return nil, fmt.Errorf("the key file %s is larger than %d bytes", path, maxKeyFileSize)
	}
	ring, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	ring.path = path
	return ring, nil
}

// parse reads the text of a key file. Errors name lines and never show them.
func parse(text []byte) (*Ring, error) {
	ring := &Ring{all: make(map[ID]*recordKey)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := parseLine(line)
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

func parseLine(line string) (*recordKey, error) {
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

func makeKey() (*recordKey, error) {
	var secret [keySize]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return newRecordKey(secret)
}

// Make makes a key and its file. A file that appears meanwhile is not touched. The error is fs.ErrExist for a file that is there.
func Make(path string) (*Ring, error) {
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
	return &Ring{path: path, first: key, all: map[ID]*recordKey{key.id: key}}, nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

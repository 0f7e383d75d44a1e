package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/drover-project/drover/server/store/keyring"
)

// authorityKey is where the store has the checksum of the server's authority, which hosts pin: secretChecksum of server/replica.go.
const authorityKey = "/drover/d/serversecrets/authority-checksum"

// content finds a store that the key file or the authority does not fit, by what the store has: those of another server, or from before a change.
// Beside a server that works, and of an etcd of others, it finds nothing.
func content(_ context.Context, in Input) []Finding {
	database := filepath.Join(in.DataDir, "etcd", "member", "snap", "db")
	path := cmp.Or(in.EncryptionKeyFile, filepath.Join(in.DataDir, "encryption.key"))
	if in.Running || len(in.Endpoints) > 0 || !there(database) || !there(path) {
		return nil
	}
	ring, err := keyring.Read(path)
	if err != nil {
		return one(Finding{"key file", Error, err.Error(), "copy the key file back from where it is kept (docs/how-to/back-up-the-server.md)"})
	}
	keys, known, err := keysOf(database)
	if err != nil {
		return one(Finding{"store", Error, err.Error(), "bring the server back from a backup (docs/how-to/back-up-the-server.md), or see whether a server runs on it"})
	}
	var all []Finding
	sealed := 0
	for id, n := range keys {
		if sealed += n; !ring.Has(id.String()) {
			all = append(all, Finding{"key file", Error, fmt.Sprintf("%d records in the store are encrypted with key %s, which %s does not have", n, id, path), "copy the key file back from where it is kept (docs/how-to/back-up-the-server.md): without it they are lost"})
		}
	}
	if len(all) == 0 {
		all = one(Finding{"key file", OK, fmt.Sprintf("%s fits the %d encrypted records in the store", path, sealed), ""})
		all = append(all, authority(filepath.Join(in.DataDir, "tls", "ca.crt"), ring, known)...)
	}
	return all
}

// authority finds that the authority's certificate is not the one whose checksum the store has. A server of several has none of its own in there.
func authority(certFile string, ring *keyring.Ring, known []byte) []Finding {
	if known == nil {
		return nil
	}
	const restore = "copy ca.crt and ca.key back from where they are kept; without them, start once with --new-authority, and join all hosts again"
	var recorded struct{ Value string }
	plain, err := ring.Open(authorityKey, known)
	if err == nil {
		err = json.Unmarshal(plain, &recorded)
	}
	if err != nil {
		return one(Finding{"authority", Error, "what the store has of the server's authority cannot be read: " + err.Error(), "bring the server back from a backup (docs/how-to/back-up-the-server.md)"})
	}
	text, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return one(Finding{"authority", Error, certFile + " is missing, and the store knows an authority: hosts that have joined trust no other", restore})
	}
	if err != nil {
		return one(Finding{"authority", Error, err.Error(), restore})
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return one(Finding{"authority", Error, certFile + " is not a certificate", restore})
	}
	if sum := sha256.Sum256(pem.EncodeToMemory(block)); hex.EncodeToString(sum[:]) != recorded.Value {
		return one(Finding{"authority", Error, fmt.Sprintf("%s has the checksum %x, and hosts have joined an authority with %s", certFile, sum, recorded.Value), restore})
	}
	return one(Finding{"authority", OK, certFile + " is what hosts have joined", ""})
}

// keysOf counts the encrypted records of a database of etcd by the key that each is encrypted with, and returns the record of authorityKey, nil
// where there is none. What bbolt does with a file that is damaged becomes an error.
func keysOf(path string) (keys map[keyring.ID]int, known []byte, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the store %s cannot be read: %v", path, broken)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, nil, fmt.Errorf("the store %s cannot be read: %w", path, err)
	}
	defer db.Close()
	newest := map[string]keyring.ID{}
	err = db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		if bucket == nil {
			return fmt.Errorf("the store %s is not a database of etcd", path)
		}
		return bucket.ForEach(func(revision, value []byte) error { // in the order of revisions
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(value); err != nil {
				return fmt.Errorf("the store %s is damaged: %w", path, err)
			}
			delete(newest, string(kv.Key))
			if string(kv.Key) == authorityKey {
				known = nil
			}
			if bytes.HasSuffix(revision, []byte("t")) || !keyring.IsSealed(kv.Value) { // "t" marks a deletion
				return nil
			}
			id, err := keyring.KeyOf(kv.Value)
			if err != nil {
				return fmt.Errorf("document %s of the store is damaged: %w", kv.Key, err)
			}
			newest[string(kv.Key)] = id
			if string(kv.Key) == authorityKey {
				known = kv.Value
			}
			return nil
		})
	})
	keys = map[keyring.ID]int{}
	for _, id := range newest {
		keys[id]++
	}
	return keys, known, err
}

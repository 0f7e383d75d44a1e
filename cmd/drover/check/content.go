package check

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/drover-project/drover/server/store/keyring"
)

// content finds a store that the key file does not fit, by what the store has: the key file of another server, or one from before a rotation.
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
	keys, err := keysOf(database)
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
	}
	return all
}

// keysOf counts the encrypted records of a database of etcd by the key that each is encrypted with. What bbolt does with a file that is
// damaged becomes an error.
func keysOf(path string) (keys map[keyring.ID]int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the store %s cannot be read: %v", path, broken)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("the store %s cannot be read: %w", path, err)
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
			if bytes.HasSuffix(revision, []byte("t")) || !keyring.IsSealed(kv.Value) { // "t" marks a deletion
				return nil
			}
			id, err := keyring.KeyOf(kv.Value)
			if err != nil {
				return fmt.Errorf("document %s of the store is damaged: %w", kv.Key, err)
			}
			newest[string(kv.Key)] = id
			return nil
		})
	})
	keys = map[keyring.ID]int{}
	for _, id := range newest {
		keys[id]++
	}
	return keys, err
}

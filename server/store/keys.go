package store

// This file holds how a store finds out whether a key file is its own.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/server/store/keyring"
)

// canary is what is encrypted below canaryKey, to recognise the right key file even
// while no sensitive document exists.
const canary = "drover"

// readKeys reads the key file, or makes it when this store has never had one.
func (s *Store) readKeys(ctx context.Context) error {
	path := s.options.KeyFile
	stored, err := s.client.Get(ctx, canaryKey)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", canaryKey, err)
	}
	ring, err := keyring.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(stored.Kvs) > 0:
		return fmt.Errorf("the secrets%s are encrypted and the key file %s is missing: put back the file that holds %s",
			s.options.where(), path, describeKey(stored.Kvs[0].Value))
	case errors.Is(err, fs.ErrNotExist):
		if ring, err = keyring.Make(path); err != nil {
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
	id, err := keyring.KeyOf(record)
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
		plain, err := s.keys.Open(canaryKey, kv.Value)
		if err != nil {
			return fmt.Errorf("the key file %s does not belong to this store: %w", s.keys.Path(), err)
		}
		if string(plain) != canary {
			return fmt.Errorf("%s in etcd holds something else than drover's mark: the store is damaged", canaryKey)
		}
		if id, err := keyring.KeyOf(kv.Value); err == nil && id == s.keys.FirstID() {
			return nil
		}
		condition = clientv3.Compare(clientv3.ModRevision(canaryKey), "=", kv.ModRevision)
	}
	sealed, err := s.keys.Seal(canaryKey, []byte(canary))
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
	if _, err := s.keys.Open(canaryKey, kvs[0].Value); err != nil {
		return fmt.Errorf("another server has just begun this store with its own key: copy its key file over %s: %w", s.keys.Path(), err)
	}
	return nil
}

package store

// This file holds what backups need of the store: a copy of it while it serves, and to begin
// again from such a copy.

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdsnapshot "go.etcd.io/etcd/etcdutl/v3/snapshot"

	"github.com/drover-project/drover/server/store/keyring"
)

// ExternalError says that something is done by the administrators of the etcd, and not by drover.
type ExternalError struct{ Endpoints []string }

func (e *ExternalError) Error() string {
	return fmt.Sprintf("the store is in etcd at %s, whose backups are its own: take one with `etcdctl snapshot save`, and keep a copy of each server's "+
		"key file and of its directory tls with it", strings.Join(e.Endpoints, ", "))
}

// restoredBy is how far the revisions of a restored store are ahead of the backup's: further than
// any server writes between a backup and its restore, so that revisions only grow for everybody.
const restoredBy = 1_000_000_000

// WriteSnapshot writes a consistent copy of the embedded etcd, in the form of `etcdctl snapshot
// save`: the database and its SHA-256. Writers need not wait for it. One is written at a time.
// begin is called with its size in bytes and with a revision that all of it has, and says where it
// goes. *ExternalError with an external etcd.
func (s *Store) WriteSnapshot(ctx context.Context, begin func(size, revision int64) (io.Writer, error)) error {
	if s.embedded == nil {
		return &ExternalError{s.options.Endpoints}
	}
	ended := make(chan error, 1)
	if !s.run(func() { ended <- s.writeSnapshot(ctx, begin) }) {
		return fmt.Errorf("copy the store: %w", ErrClosed)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return nil
}

func (s *Store) writeSnapshot(ctx context.Context, begin func(size, revision int64) (io.Writer, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	select {
	case s.copying <- struct{}{}:
		defer func() { <-s.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	revision := s.embedded.Server.KV().Rev()
	snapshot := s.embedded.Server.Backend().Snapshot()
	defer func() { _ = snapshot.Close() }() // nothing was changed by it
	w, err := begin(snapshot.Size()+sha256.Size, revision)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := snapshot.WriteTo(io.MultiWriter(&writer{ctx, w}, sum)); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// writer ends with its context: a store that closes does not wait for a slow reader.
type writer struct {
	ctx context.Context //nolint:containedctx // io.Writer has no place for it
	to  io.Writer
}

func (w *writer) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

// Schema is what this server reads and writes at most.
func Schema() int { return 1 + len(migrationSteps()) }

// DataKey is the id of the key that encrypts the documents, as the key file has it.
func (s *Store) DataKey() string { return s.keys.FirstID().String() }

// HoldsKey says whether a key file has the key of an id; see DataKey. A key file that cannot be read is an error.
func HoldsKey(path, id string) (bool, error) {
	ring, err := keyring.Read(path)
	if err != nil {
		return false, err
	}
	return ring.Has(id), nil
}

// Rebuild makes the embedded etcd of a new data directory from a snapshot that WriteSnapshot
// wrote. Its revisions go on a thousand million later. Nothing is rebuilt over what is there.
// A damaged snapshot, and a directory with something in it, are errors.
func Rebuild(snapshot, dataDir string, log *slog.Logger) error {
	s := &Store{options: Options{DataDir: dataDir}, log: log}
	dir := filepath.Join(dataDir, etcdName)
	ended := make(chan error, 2)
	died := func(err error) { ended <- err }
	cfg := s.embeddedConfig(dir, died)
	go func() { // etcd may end its goroutine instead of returning, see etcdLogger
		defer func() {
			if fault := recover(); fault != nil {
				ended <- fmt.Errorf("%v", fault)
			}
		}()
		ended <- etcdsnapshot.NewV3(etcdLogger(log, died)).Restore(etcdsnapshot.RestoreConfig{
			SnapshotPath: snapshot, OutputDataDir: dir,
			Name: cfg.Name, PeerURLs: []string{cfg.AdvertisePeerUrls[0].String()}, InitialCluster: cfg.InitialCluster, InitialClusterToken: cfg.InitialClusterToken,
			RevisionBump: restoredBy, MarkCompacted: true,
		})
	}()
	if err := <-ended; err != nil {
		return fmt.Errorf("make an etcd in %s of the backup: %w", dir, err)
	}
	return nil
}

// Restoration is how a store came from a backup.
type Restoration struct {
	// Revision is where the revisions of the restored store begin. Smaller ones may be of
	// documents that the backup does not have, or has otherwise.
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// Backup is when the backup was made.
	Backup time.Time `json:"backup"`
}

// MarkRestored writes down that the store was restored just now. Its errors are those of a write.
func (s *Store) MarkRestored(ctx context.Context, at, backup time.Time) error {
	text, err := json.Marshal(Restoration{Revision: s.Revision(), At: at.UTC(), Backup: backup.UTC()})
	if err == nil {
		_, err = s.client.Put(ctx, restoredKey, string(text))
	}
	if err != nil {
		return fmt.Errorf("write %s to etcd: %w", restoredKey, err)
	}
	return nil
}

// Restored is the last time that the store was restored; false when it never was.
func (s *Store) Restored() (Restoration, bool) { return s.restored, s.restored.Revision > 0 }

// readRestored reads what MarkRestored wrote.
func (s *Store) readRestored(ctx context.Context) error {
	response, err := s.client.Get(ctx, restoredKey, clientv3.WithLimit(1))
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", restoredKey, err)
	}
	for _, kv := range response.Kvs {
		if err := json.Unmarshal(kv.Value, &s.restored); err != nil || s.restored.Revision < 0 {
			return errors.Join(fmt.Errorf("read %s: it is not {\"revision\": NUMBER}", restoredKey), err)
		}
	}
	return nil
}

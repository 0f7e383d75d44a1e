// The files of the embedded etcd are looked at before it starts: on some of what a disk can lose, etcd waits for ever
// or ends the process without a sentence.

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/schema"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
)

// wayOut is what a person can do about a damaged store.
const wayOut = "restore the whole data directory from a backup, or move %s away to begin with an empty store"

// checkDamage refuses a directory of the embedded etcd that has lost a part of what belongs together.
func checkDamage(dir string) error {
	db := filepath.Join(dir, "member", "snap", "db")
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	snapshots, err2 := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("look for the log of the embedded etcd: %w", err)
	}
	info, err := os.Stat(db)
	missing := errors.Is(err, fs.ErrNotExist)
	damaged := func(format string, args ...any) error {
		return fmt.Errorf(format+": "+wayOut, append(args, dir)...)
	}
	switch {
	case missing && len(snapshots) > 0:
		return damaged("the database %s is missing", db)
	case missing:
		return nil // a new store, or one that is made from its log
	case err != nil:
		return fmt.Errorf("look at the database of the embedded etcd: %w", err)
	case info.Size() == 0 && len(logs) > 0:
		return damaged("the database %s is empty", db)
	}
	for _, log := range logs {
		if info, err := os.Stat(log); err != nil || info.Size() == 0 {
			return damaged("the log %s is empty", log)
		}
	}
	used, applied, err := inUse(db)
	switch {
	case err != nil:
		return damaged("the database %s cannot be read (%w)", db, err)
	case used && len(logs) == 0:
		return damaged("the log %s is missing, without which the database beside it cannot be trusted", filepath.Join(dir, "member", "wal"))
	case len(logs) == 0:
		return nil
	}
	last, err := lastEntry(logs)
	switch {
	case err != nil:
		return damaged("the log %s cannot be read (%w)", filepath.Join(dir, "member", "wal"), err)
	case last < applied: // etcd would wait for the entries that are gone
		return damaged("the log %s is cut short: it ends with entry %d, and the database has entry %d", filepath.Join(dir, "member", "wal"), last, applied)
	}
	return nil
}

// lastEntry is the index of the last entry of a log, whose files are sorted. A record at its end that was not written whole does
// not count, as etcd leaves it out, too.
func lastEntry(logs []string) (last uint64, err error) {
	for i := len(logs) - 1; i >= 0 && last == 0; i-- {
		f, err := os.Open(logs[i])
		if err != nil {
			return 0, err
		}
		defer f.Close()
		for decoder := etcdwal.NewDecoder(fileutil.NewFileReader(f)); ; {
			var record walpb.Record
			if err := decoder.Decode(&record); err != nil {
				if i == len(logs)-1 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) || errors.Is(err, io.EOF) {
					break
				}
				return 0, fmt.Errorf("%s: %w", filepath.Base(logs[i]), err)
			}
			switch record.Type {
			case etcdwal.EntryType:
				var e raftpb.Entry
				if err := e.Unmarshal(record.Data); err != nil {
					return 0, fmt.Errorf("%s: %w", filepath.Base(logs[i]), err)
				}
				last = e.Index
			case etcdwal.SnapshotType:
				var s walpb.Snapshot
				if err := s.Unmarshal(record.Data); err != nil {
					return 0, fmt.Errorf("%s: %w", filepath.Base(logs[i]), err)
				}
				last = max(last, s.Index)
			case etcdwal.CrcType: // of what the files before this one hold
				decoder.UpdateCRC(record.Crc)
			}
		}
	}
	return last, nil
}

// inUse says whether a database holds anything, and the index of the last entry of the log that it has. A first start that was
// interrupted leaves an empty one.
func inUse(file string) (used bool, applied uint64, err error) {
	defer func() {
		if fault := recover(); fault != nil { // pages that are not what they should be
			err = fmt.Errorf("%v", fault)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		if info, err := os.Stat(file); err != nil || info.Size() < tx.Size() {
			return errors.Join(err, fmt.Errorf("it is shorter than its %d bytes", tx.Size())) // a read beyond the end ends the process
		}
		if b := tx.Bucket([]byte("key")); b != nil {
			key, _ := b.Cursor().First()
			used = key != nil
		}
		if b := tx.Bucket(schema.Meta.Name()); b != nil {
			if index := b.Get(schema.MetaConsistentIndexKeyName); len(index) == 8 {
				applied = binary.BigEndian.Uint64(index)
			}
		}
		return nil
	})
	return used, applied, err
}

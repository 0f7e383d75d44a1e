package store

// This file looks at the files of the embedded etcd before it starts: on some of what a
// disk can lose, etcd waits for ever or ends the process without a sentence.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// wayOut is what a person can do about a damaged store.
const wayOut = "restore the whole data directory from a backup, or move %s away to begin with an empty store"

// checkFiles refuses a directory of the embedded etcd that has lost a part of what belongs together.
func checkFiles(dir string) error {
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
	used, err := inUse(db)
	switch {
	case err != nil:
		return damaged("the database %s cannot be read (%w)", db, err)
	case used && len(logs) == 0:
		return damaged("the log %s is missing, without which the database beside it cannot be trusted", filepath.Join(dir, "member", "wal"))
	}
	return nil
}

// inUse says whether a database holds anything. A first start that was interrupted leaves an empty one.
func inUse(file string) (used bool, err error) {
	defer func() {
		if fault := recover(); fault != nil { // pages that are not what they should be
			err = fmt.Errorf("%v", fault)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, err
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
		return nil
	})
	return used, err
}

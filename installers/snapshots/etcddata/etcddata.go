// Package etcddata says whether a file is a snapshot of etcd that can be restored. It opens the file as etcd's restore does, and
// before it is relied on: what stopped halfway, or was changed on a disk or on its way, is not a snapshot.
//
// Wire source: etcd's etcdutl snapshot save and restore (a database of bbolt, and the SHA-256 of it in the 32 bytes after it;
// buckets key and meta).
package etcddata

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/drover-project/drover/installers/snapshots/spool"
)

const (
	// MaxSize bounds a snapshot, in bytes: etcd advises against more than 8 GiB.
	MaxSize = 16 << 30
	// sector is what the size of a database is a multiple of.
	sector = 512
	// openLimit bounds the wait for the lock of a file that no other process has.
	openLimit = 10 * time.Second
)

// Info is what a snapshot says of itself.
type Info struct {
	// Size is that of the snapshot in bytes, with its checksum; Sum is the SHA-256 of all of them, in hex.
	Size int64
	Sum  string
	// Revision is etcd's when the snapshot was taken; 0 is an etcd that nothing was ever written to.
	Revision int64
}

// Check reads a snapshot to its end and opens it. It keeps a copy in a directory meanwhile, which no other user can open and
// which is gone afterwards, even after a crash. The error says why the snapshot cannot be restored.
func Check(ctx context.Context, snapshot io.Reader, dir string) (Info, error) {
	file, err := spool.New(dir)
	if err != nil {
		return Info{}, err
	}
	defer file.Close()
	size, sum, err := spool.Fill(ctx, file, snapshot, MaxSize)
	if err != nil {
		return Info{}, err
	}
	info := Info{Size: size, Sum: sum}
	info.Revision, err = CheckFile(ctx, file, size)
	return info, err
}

// CheckFile is Check of a file of so many bytes that stays as it is meanwhile; no copy is made. It returns etcd's revision in it. The errors are
// those of Check.
func CheckFile(ctx context.Context, file *os.File, size int64) (revision int64, err error) {
	if err := ownSum(ctx, file, size); err != nil {
		return 0, err
	}
	return open(file)
}

// ownSum compares a snapshot with the checksum at its end.
func ownSum(ctx context.Context, file *os.File, size int64) error {
	switch {
	case size == 0:
		return errors.New("it is empty")
	case size%sector == 0:
		return errors.New("it has no checksum at its end: it is the file of a database, copied from a member, and not a snapshot; take one with etcdctl snapshot save")
	case size%sector != sha256.Size:
		return fmt.Errorf("its %d bytes are not a whole snapshot: it was cut off, or is something else", size)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, spool.Reader(ctx, io.NewSectionReader(file, 0, size-sha256.Size))); err != nil {
		return err
	}
	last := make([]byte, sha256.Size)
	if _, err := file.ReadAt(last, size-sha256.Size); err != nil {
		return err
	}
	if !bytes.Equal(last, sum.Sum(nil)) {
		return fmt.Errorf("its bytes are not those that etcd sent (sha256 %s, and at its end %s): it was changed since", hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(last))
	}
	return nil
}

// open opens the database and reads its last revision. A database that was made on purpose can lead anywhere: what
// bbolt does then becomes an error here.
func open(file *os.File) (revision int64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("it does not open as a database of etcd: %v", broken)
		}
	}()
	copied, err := spool.Again(file)
	if err != nil {
		return 0, err
	}
	defer copied.Close() // a second time when bbolt has closed it, which does no harm
	db, err := bbolt.Open("snapshot", 0o600, &bbolt.Options{
		ReadOnly: true, Timeout: openLimit, OpenFile: func(string, int, os.FileMode) (*os.File, error) { return copied, nil },
	})
	if err != nil {
		return 0, fmt.Errorf("it does not open as a database of etcd: %w", err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		if keys == nil || tx.Bucket([]byte("meta")) == nil {
			return errors.New("it is a database, but not of etcd: it lacks the bucket key or meta")
		}
		// A revision is 8 bytes of it, "_", and 8 bytes of what came how many in it.
		if last, _ := keys.Cursor().Last(); len(last) >= 8 {
			revision = int64(binary.BigEndian.Uint64(last)) // #nosec G115 -- shown, and nothing else
		}
		return nil
	})
	return revision, err
}

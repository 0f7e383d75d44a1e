package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// block is what file systems give out space by, in bytes.
const block = 4 << 10

// Rewrite is WriteFile, with mode 0600, of a file that is written often and may end in
// white space, as JSON may. The content before the last stays beside it, at "<path>.tmp". The new one goes
// over that, which takes no new space and leaves the file system's journal alone, and
// then the two change places. The errors are those of the file system; the file is as it was, or new, never between.
func Rewrite(path string, data []byte) (err error) {
	temp := File{Path: path}.temp()
	f, err := openOwn(temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data = padded(data)
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	if err := syncData(f); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: temp, Err: err}
	}
	if err := exchange(temp, path); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		// What is beside it now may still have the name on disk, and must not be written over.
		return errors.Join(err, removeIfThere(temp))
	}
	return nil
}

// openOwn opens a file that only its owner can read and that has no other name, made anew
// if what is there is anything else.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|NoFollow|nonBlock, 0)
	if err == nil {
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if info.Mode() == 0o600 && isOwn(info) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	if err := removeIfThere(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// padded fills data up to whole blocks with line ends.
func padded(data []byte) []byte {
	out := append([]byte{}, data...)
	for len(out)%block != 0 {
		out = append(out, '\n')
	}
	return out
}

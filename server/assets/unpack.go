package assets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what unpacking holds in memory, in bytes; `make agents` compresses with windows up to that.
const maxWindow = 16 << 20

// unpacked is a file system of compressed files, NAME.zst of from, which are written to dir when they are first asked for, and served from
// there: a thousand hosts that join at once cost no more than one does. What a server before left there is written over, and never served.
type unpacked struct {
	from fs.FS
	dir  string

	mu   sync.Mutex
	done map[string]bool
}

// Open opens the file, which also without its ending is there.
func (u *unpacked) Open(name string) (fs.File, error) {
	path := filepath.Join(u.dir, name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done[name] {
		if f, err := os.Open(path); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if err := u.unpack(name, path); err != nil {
		return nil, err
	}
	u.done[name] = true
	return os.Open(path)
}

func (u *unpacked) unpack(name, path string) error {
	in, err := u.from.Open(name + ".zst")
	if err != nil {
		return err
	}
	defer in.Close()
	reader, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	defer reader.Close()
	if err := os.MkdirAll(u.dir, 0o700); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	out, err := os.CreateTemp(u.dir, "."+name+"-")
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	_, err = io.Copy(out, reader)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("unpack %s into %s, see whether the disk is full: %w", name, u.dir, err), os.Remove(out.Name()))
	}
	return nil
}

// Compress writes FILE.zst beside each FILE, for the inside of the server: `make agents`. A copy that is newer than its file stays. Equal
// files have equal copies.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
)

// window is how far back a copy refers, in bytes; server/assets unpacks no larger one.
const window = 16 << 20

func main() {
	for _, path := range os.Args[1:] {
		if err := compress(path); err != nil {
			fmt.Fprintf(os.Stderr, "compress %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func compress(path string) error {
	of, err := os.Stat(path)
	if err != nil {
		return err
	}
	is, err := os.Stat(path + ".zst")
	switch {
	case err == nil && is.ModTime().After(of.ModTime()):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// One thread, as the copy must not depend on how many there are.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".zst.new", encoder.EncodeAll(content, nil), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".zst.new", path+".zst")
}

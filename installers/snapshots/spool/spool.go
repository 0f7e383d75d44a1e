// Package spool keeps what is on its way from one place to another, as long as it takes to look at it: in files that have no
// name, so that no other process opens them and nothing is left of them after a crash. Snapshots have every Secret of a cluster in them.
package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// New makes an empty file in a directory; "" is the system's for temporary files. Close it, and it is gone. The errors are those of the file system.
func New(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "drover-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("make a temporary file: %w", err), file.Close())
	}
	return file, nil
}

// Fill writes what a reader has to a file, from the file's beginning, and returns its size in bytes and its SHA-256 in hex. More than limit bytes are
// an error.
func Fill(ctx context.Context, file *os.File, r io.Reader, limit int64) (size int64, sum string, err error) {
	out := Counted(To(file))
	size, err = io.Copy(out, io.LimitReader(Reader(ctx, r), limit+1))
	switch {
	case out.Failed != nil:
		return size, "", out.Failed
	case err != nil:
		return size, "", fmt.Errorf("after %d bytes: %w", size, err)
	case size > limit:
		return size, "", fmt.Errorf("it has more than %d bytes", limit)
	}
	return size, out.Sum(), nil
}

// To writes to a file from its beginning. Its errors say where there is no room.
func To(file *os.File) io.Writer { return &place{file: file} }

type place struct {
	file *os.File
	at   int64
}

func (p *place) Write(b []byte) (int, error) {
	n, err := p.file.WriteAt(b, p.at)
	p.at += int64(n)
	dir := filepath.Dir(p.file.Name())
	switch {
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("there is no room for it in %s, after %d bytes: make room there, or set TMPDIR to a directory that has it", dir, p.at)
	case err != nil:
		err = fmt.Errorf("keep it in %s: %w", dir, err)
	}
	return n, err
}

// Reader reads until the context ends.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context //nolint:containedctx // io.Reader has no place for it
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(b)
}

// Counter counts what goes through to a writer.
type Counter struct {
	Size int64
	// Failed is the writer's error.
	Failed error
	to     io.Writer
	hash   hash.Hash
}

// Counted is a counter before a writer.
func Counted(to io.Writer) *Counter { return &Counter{to: to, hash: sha256.New()} }

// Sum is the SHA-256 in hex of what went through.
func (c *Counter) Sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }

func (c *Counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.Size += int64(n)
	c.Failed = err
	c.hash.Write(b[:n])
	return n, err
}

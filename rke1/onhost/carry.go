// Carrying a file from one host to another, through the machine that runs the engine: the hosts need no way to
// each other, and nothing of it is kept in between.

package onhost

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/drover-project/drover/rke1/nodeconfig"
)

// carryLimit bounds the carrying of one file: etcd's largest snapshot has some 8 GiB.
const carryLimit = time.Hour

// maxCarried is how large a file is that is carried, in bytes: as many as a snapshot may have.
const maxCarried = 16 << 30

// Carry copies a file of a directory that both hosts have to the same place on another host, with its mode and
// owner. A transfer that was interrupted leaves a file that is cut off; its user checks it first.
func (h *Host) Carry(ctx context.Context, to *Host, d Directory, name string) error {
	ctx, cancel := context.WithTimeout(ctx, carryLimit)
	defer cancel()
	err := h.withDirectory(ctx, d, func(from string) error {
		stream, _, err := h.Docker.CopyFromContainer(ctx, from, path.Join(d.Path, name))
		if err != nil {
			return err
		}
		defer stream.Close()
		archive := tar.NewReader(stream)
		is, err := fileIn(archive)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: is.Size, Mode: is.Mode & 0o777, Uid: is.Uid, Gid: is.Gid, ModTime: is.ModTime}
		return to.withDirectory(ctx, d, func(there string) error { return to.put(ctx, there, d.Path, header, archive) })
	})
	if err != nil {
		return fmt.Errorf("copy %s of %s from host %s to host %s: %w", name, d.OnHost, h.Address, to.Address, err)
	}
	return nil
}

// CopyOut gives a file of a directory to do, with its size in bytes. The errors are those of do and of Docker, with the host's name.
func (h *Host) CopyOut(ctx context.Context, d Directory, name string, do func(r io.Reader, size int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, carryLimit)
	defer cancel()
	err := h.withDirectory(ctx, d, func(id string) error {
		stream, _, err := h.Docker.CopyFromContainer(ctx, id, path.Join(d.Path, name))
		if err != nil {
			return err
		}
		defer stream.Close()
		archive := tar.NewReader(stream)
		header, err := fileIn(archive)
		if err != nil {
			return err
		}
		return do(archive, header.Size)
	})
	if err != nil {
		return fmt.Errorf("copy %s of %s from host %s: %w", name, d.OnHost, h.Address, err)
	}
	return nil
}

// CopyIn makes a file of a directory of so many bytes, which root alone may read. When it fails there may be a file that is cut off: give it
// a name by which it is not taken for whole, and rename it when it was looked at.
func (h *Host) CopyIn(ctx context.Context, d Directory, name string, from io.Reader, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, carryLimit)
	defer cancel()
	err := h.withDirectory(ctx, d, func(id string) error {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: h.now()}
		return h.put(ctx, id, d.Path, header, from)
	})
	if err != nil {
		return fmt.Errorf("copy %s to %s of host %s: %w", name, d.OnHost, h.Address, err)
	}
	return nil
}

// fileIn is the header of the one file that a host sends. It says what follows it, and nothing of it is believed but that.
func fileIn(archive *tar.Reader) (*tar.Header, error) {
	header, err := archive.Next()
	switch {
	case err != nil:
		return nil, err
	case header.Typeflag != tar.TypeReg:
		return nil, errors.New("it is no file")
	case header.Size > maxCarried:
		return nil, fmt.Errorf("it has %d bytes, more than %d", header.Size, int64(maxCarried))
	}
	return header, nil
}

// put writes one file into a directory of a container.
func (h *Host) put(ctx context.Context, id, dir string, header *tar.Header, from io.Reader) error {
	stream, out := io.Pipe()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stream.Close() // ends the writer when Docker reads no further
	writing.Go(func() {
		w := tar.NewWriter(out)
		err := w.WriteHeader(header)
		if err == nil {
			_, err = io.Copy(w, from)
		}
		if err == nil {
			err = w.Close()
		}
		out.CloseWithError(err)
	})
	return h.Docker.CopyToContainer(ctx, id, dir, stream, container.CopyToContainerOptions{})
}

// withDirectory makes a container that has a directory and is never started, for as long as something is done with it.
func (h *Host) withDirectory(ctx context.Context, d Directory, do func(id string) error) (err error) {
	id, err := h.create(ctx, nodeconfig.Process{
		Name: deployer, Image: d.Image, ImageRegistryAuthConfig: d.Auth, Binds: []string{d.OnHost + ":" + d.Path},
		// Never run; but an image without a command of its own cannot be made a container of.
		Command: []string{"true"}, NetworkMode: "none",
	})
	if err != nil {
		return err
	}
	defer func() { err = h.discard(ctx, deployer, id, err) }()
	return do(id)
}

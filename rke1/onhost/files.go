// Files of a host, read and written by Docker's archive calls on a container that is
// never started: no shell is needed, no secret stands in a container's environment, and what
// was written can be read back.

package onhost

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// deployer is the name of the container through which files go, which RKE's has too.
const deployer = "file-deployer"

const (
	// maxFiles bounds the files of a directory that are read, maxBytes all of their bytes.
	maxFiles = 2000
	maxBytes = 32 << 20
)

// File is a file on a host.
type File struct {
	// Path is absolute, below the directory that it is written to.
	Path     string
	Contents []byte
	// Mode are the permission bits.
	Mode     fs.FileMode
	UID, GID int
	// Changed is when the file was written, in full seconds; Put sets it, later than any
	// container that started before.
	Changed time.Time
}

// Same says that another file has the same text, mode and owner. A newline more or less at the end is
// no difference: RKE's own commands add one.
func (f File) Same(other File) bool {
	return bytes.Equal(withoutNewline(f.Contents), withoutNewline(other.Contents)) && f.Mode.Perm() == other.Mode.Perm() && f.UID == other.UID && f.GID == other.GID
}

// Directory is a directory of a host, seen through an image that is on the host or can be pulled.
type Directory struct {
	// OnHost is where it is on the host, Path how files name it: they differ by a prefix.
	OnHost, Path string
	// Image is any image; nothing of it runs. Auth is Docker's X-Registry-Auth for pulling it.
	Image, Auth string
}

// Put brings files of a directory to what is wanted, and returns the paths of those that
// were not yet, and everything that is there afterwards. Other files there stay. What is written is read back and compared. The error names the host,
// and is that of Docker or says which file is not as it was written.
func (h *Host) Put(ctx context.Context, d Directory, files []File) (changed []string, there map[string]File, err error) {
	err = h.through(ctx, d, func(id string) (err error) {
		if there, err = h.read(ctx, id, d.Path); err != nil {
			return err
		}
		differ := different(files, there)
		if len(differ) == 0 {
			return nil
		}
		// Archives have full seconds: what starts later than now must not look as if it had
		// started before the file was written.
		changes := h.now().Truncate(time.Second).Add(time.Second)
		text, err := archive(d.Path, differ, changes)
		if err != nil {
			return err
		}
		if err := h.Docker.CopyToContainer(ctx, id, "/", bytes.NewReader(text), container.CopyToContainerOptions{}); err != nil {
			return fmt.Errorf("write %d files: %w", len(differ), err)
		}
		if there, err = h.read(ctx, id, d.Path); err != nil {
			return err
		}
		if wrong := different(files, there); len(wrong) > 0 {
			return fmt.Errorf("%s is not as it was written, look for what else writes there", wrong[0].Path)
		}
		for _, f := range differ {
			changed = append(changed, f.Path)
		}
		return h.sleepUntil(ctx, changes)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("files in %s of host %s: %w", d.OnHost, h.Address, err)
	}
	return changed, there, nil
}

// Read returns the files of a directory by path; none when it is not there.
func (h *Host) Read(ctx context.Context, d Directory) (files map[string]File, err error) {
	err = h.through(ctx, d, func(id string) error {
		files, err = h.read(ctx, id, d.Path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read files in %s of host %s: %w", d.OnHost, h.Address, err)
	}
	return files, nil
}

// through makes a container that has the directory and is never started.
func (h *Host) through(ctx context.Context, d Directory, f func(id string) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return h.withDirectory(ctx, d, f)
}

// read reads a directory of a container, with its regular files.
func (h *Host) read(ctx context.Context, id, dir string) (map[string]File, error) {
	stream, _, err := h.Docker.CopyFromContainer(ctx, id, dir)
	if errdefs.IsNotFound(err) {
		return map[string]File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	defer stream.Close()
	files, err := unpack(stream, path.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return files, nil
}

// unpack reads an archive of Docker's, whose names begin with the directory's own.
func unpack(stream io.Reader, parent string) (map[string]File, error) {
	files, size := map[string]File{}, int64(0)
	for r := tar.NewReader(stream); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if size += header.Size + int64(len(header.Name)); size > maxBytes || len(files) == maxFiles {
			return nil, fmt.Errorf("it holds more than %d files or %d bytes", maxFiles, maxBytes)
		}
		text, err := io.ReadAll(io.LimitReader(r, maxBytes))
		if err != nil {
			return nil, err
		}
		f := File{Path: path.Join(parent, header.Name), Contents: text, Mode: fs.FileMode(header.Mode).Perm(), UID: header.Uid, GID: header.Gid, Changed: header.ModTime} // #nosec G115 G305 -- permission bits alone; a name on that host, never of a file here
		files[f.Path] = f
	}
}

// different are the wanted files that are not there as they should be, by path.
func different(wanted []File, there map[string]File) []File {
	var d []File
	for _, f := range wanted {
		is, ok := there[f.Path]
		if !ok || !f.Same(is) {
			d = append(d, f)
		}
	}
	slices.SortFunc(d, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return d
}

func withoutNewline(text []byte) []byte { return bytes.TrimSuffix(text, []byte("\n")) }

// archive is the files with the directories between them and the existing directory,
// 0755 as RKE makes them.
func archive(dir string, files []File, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	between := map[string]struct{}{}
	for _, f := range files {
		for p := path.Dir(f.Path); p != dir; p = path.Dir(p) {
			if p == "/" || p == "." {
				return nil, fmt.Errorf("%s is not below %s", f.Path, dir)
			}
			between[p] = struct{}{}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(between)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p[1:] + "/", Mode: 0o755, ModTime: now}); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.Path[1:], Size: int64(len(f.Contents)), Mode: int64(f.Mode.Perm()), Uid: f.UID, Gid: f.GID, ModTime: now,
		})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Contents); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

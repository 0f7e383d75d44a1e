// Package assets finds the files that hosts download when they join: the system
// agent and the node agent for each architecture. A release carries them inside the server, compressed, so that one
// binary is all there is to install; a build by hand has them beside it.
package assets

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Open gives the files of dir; without a dir those inside this binary, which are unpacked into a directory of the server's own, else those
// beside it. It returns an error for a dir that is not there.
func Open(dir, own string) (fs.FS, error) {
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("open the directory of assets: %w", err)
		}
		return only(os.DirFS(dir)), nil
	}
	if embedded != nil {
		return only(&unpacked{from: embedded, dir: own, done: map[string]bool{}}), nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the directory of assets: %w", err)
	}
	return only(os.DirFS(filepath.Dir(self))), nil
}

// names are all the files that are ever served, so that a directory of binaries shows nothing else.
var names = []string{
	"rancher-system-agent-amd64", "rancher-system-agent-arm64",
	"rancher-agent-amd64", "rancher-agent-arm64",
}

// allowed is a file system of which only some names exist.
type allowed struct{ fs.FS }

func only(f fs.FS) fs.FS { return allowed{f} }

// Open opens one of the served names.
func (a allowed) Open(name string) (fs.File, error) {
	if slices.Contains(names, name) {
		return a.FS.Open(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists the served names that are there.
func (a allowed) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var list []fs.DirEntry
	for _, n := range names {
		if info, err := fs.Stat(a.FS, n); err == nil {
			list = append(list, fs.FileInfoToDirEntry(info))
		}
	}
	return list, nil
}

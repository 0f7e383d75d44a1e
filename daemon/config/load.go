// What the loader accepts: one regular file that no other user can read or write.

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-project/drover/plans/jsonfault"
	"github.com/drover-project/drover/plans/strictyaml"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// load reads a file of a kind into a value, as JSON or YAML by its name.
func load(kind, path string, into any) error {
	b, err := read(path)
	if err != nil {
		return fmt.Errorf("%s %w", kind, err)
	}
	base := filepath.Base(path)
	switch {
	case strings.Contains(base, ".json"):
		err = json.NewDecoder(bytes.NewReader(b)).Decode(into)
	case strings.Contains(base, ".yaml"), strings.Contains(base, ".yml"):
		err = loadYAML(b, into)
	default:
		return fmt.Errorf("%s %s has to be called .json or .yaml, for its name says its format", kind, path)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, path, plain(err))
	}
	return nil
}

// loadYAML reads the first document and, as JSON does, leaves out keys that it does not know.
func loadYAML(b []byte, into any) error {
	docs, err := strictyaml.Read(strictyaml.Source{Private: true}, b)
	if err != nil || len(docs) == 0 {
		return err
	}
	if errs := docs[0].Decode(into, strictyaml.Options{Ignore: strictyaml.IgnoreAll, AsWritten: true, YesNo: true}); errs != nil {
		return errs[0]
	}
	return nil
}

// plain leaves out what the JSON parser quotes of a file that holds credentials.
func plain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("is not whole: the end is missing")
	}
	var yaml strictyaml.Errors
	var fault strictyaml.Error
	if errors.As(err, &yaml) || errors.As(err, &fault) {
		return err
	}
	return jsonfault.Plain(err)
}

func read(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("has no path")
	}
	// Without O_NONBLOCK a FIFO would hold the agent up before it can be refused.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be looked at: %w", err)
	}
	if err := trusted(path, info, os.Getuid(), os.Getgid()); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return b, nil
}

// trusted says in one sentence what about a file would let others decide what the agent does.
func trusted(path string, info fs.FileInfo, uid, gid int) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner that can be read", path)
	}
	mode := info.Mode().Perm()
	if mode&^0o600 == 0 && mode&0o400 != 0 && int(owner.Uid) == uid && int(owner.Gid) == gid {
		return nil
	}
	return fmt.Errorf("%s has mode %04o and owner %d:%d, and has to have mode 0600 and owner %d:%d, because it decides what runs as root (chown %d:%d %s && chmod 0600 %s)",
		path, mode, owner.Uid, owner.Gid, uid, gid, uid, gid, path, path)
}

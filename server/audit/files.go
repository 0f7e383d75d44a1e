// The files of the log: <data directory>/audit/<time of the first line>.jsonl. The newest is written,
// lines are only ever added, and a file that is full is left as it is: nothing is renamed, so that who
// reads never loses their place.

package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	nameFormat = "20060102T150405.000Z"
	suffix     = ".jsonl"
	// newFileAfter is the age at which a file is full.
	newFileAfter = 24 * time.Hour
)

// Limits bound what is kept.
type Limits struct {
	// FileBytes is the size at which a new file begins.
	FileBytes int64
	// Files is how many are kept, with the one that is written.
	Files int
	// Age is how long a file is kept after its last line.
	Age time.Duration
}

// files writes lines. It is not safe for concurrent use.
type files struct {
	dir string
	// create makes a new file.
	create func(path string) (*os.File, error)
	// report gets what went wrong although the line was written.
	report func(error)

	file  *os.File
	begun time.Time
	size  int64 // of whole lines
	torn  bool  // a part of a line follows them
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// list are the names of the files in a directory, oldest first.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, err := begin(e.Name()); err == nil && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// begin is when a file was made.
func begin(name string) (time.Time, error) {
	text, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return time.Time{}, fs.ErrInvalid
	}
	return time.Parse(nameFormat, text)
}

// open makes the directory, and goes on with the newest file in it.
func (f *files) open() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	names, err := list(f.dir)
	if err != nil || len(names) == 0 {
		return err
	}
	newest := names[len(names)-1]
	file, err := os.OpenFile(filepath.Join(f.dir, newest), os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	last := []byte{'\n'}
	if info.Size() > 0 {
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	f.file, f.size, f.torn = file, info.Size(), last[0] != '\n'
	f.begun, _ = begin(newest) // it is in the list
	return nil
}

// write adds a line, with its line feed. After an error there is nothing of it in the file, or a
// part that the next line is set off from.
func (f *files) write(line []byte, now time.Time, limits Limits) error {
	if f.file == nil || f.size > 0 && f.size+int64(len(line)) > limits.FileBytes || now.Sub(f.begun) >= newFileAfter {
		if err := f.next(now, limits); err != nil {
			if f.file == nil {
				return err
			}
			f.report(err) // a full file is better than none
		}
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.file.Write(line)
	if err == nil {
		f.size += int64(n)
		f.torn = false
		return nil
	}
	if n > 0 {
		f.torn = f.file.Truncate(f.size) != nil || f.torn
	}
	return err
}

// next begins a new file and removes those that are too many or too old.
func (f *files) next(now time.Time, limits Limits) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil { // a user may have removed it
		return err
	}
	names, err := list(f.dir)
	if err != nil {
		return err
	}
	begun := now.UTC().Truncate(time.Millisecond)
	if len(names) > 0 { // the order of the names is that of the lines, even when the clock goes back
		if last, _ := begin(names[len(names)-1]); !begun.After(last) {
			begun = last.Add(time.Millisecond)
		}
	}
	file, err := f.create(filepath.Join(f.dir, begun.Format(nameFormat)+suffix))
	if err != nil {
		return err
	}
	err = f.close()
	f.file, f.begun, f.size, f.torn = file, begun, 0, false
	return errors.Join(err, f.prune(append(names, filepath.Base(file.Name())), now, limits))
}

// prune removes files; the last of the names stays.
func (f *files) prune(names []string, now time.Time, limits Limits) error {
	var all []error
	for i, name := range names[:len(names)-1] {
		ended, _ := begin(names[i+1]) // it is in the list
		if len(names)-i > limits.Files || now.Sub(ended) > limits.Age {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = append(all, fmt.Errorf("remove an old file: %w", err))
			}
		}
	}
	return errors.Join(all...)
}

// look closes a file that was removed: the next line begins a new one.
func (f *files) look() {
	if f.file == nil {
		return
	}
	here, err := os.Stat(f.file.Name())
	mine, mineErr := f.file.Stat()
	if errors.Is(err, fs.ErrNotExist) || err == nil && mineErr == nil && !os.SameFile(here, mine) {
		_ = f.file.Close() // what it held is gone
		f.file = nil
	}
}

func (f *files) sync() error {
	if f.file == nil {
		return nil
	}
	return f.file.Sync()
}

func (f *files) close() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Sync(), f.file.Close())
	f.file = nil
	return err
}

// after are the files from one on, which itself may be gone.
func after(dir, name string) ([]string, error) {
	names, err := list(dir)
	if err != nil {
		return nil, err
	}
	i, _ := slices.BinarySearch(names, name)
	return names[i:], nil
}

// Giving an export away: as a directory that is whole or not there, or as one encrypted file.

package export

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/agessh"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/state"
)

// SealedFile is the name of an encrypted export, a tar in the format of age.
const SealedFile = "rke-export.tar.age"

// Save writes files into a directory of their own, mode 0700, each with mode 0600. The directory must
// not be there yet, or be empty; it appears with all files in it, or not at all.
// A directory with something in it, and what the disk refuses, are errors.
func Save(dir string, files []File) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if err := Free(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	beside, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".tmp-") // with mode 0700
	if err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	var contents []durable.File
	for _, f := range files {
		if f.Name != filepath.Base(f.Name) {
			return fmt.Errorf("write to %s: %q is not the name of a file", dir, f.Name)
		}
		contents = append(contents, durable.File{Path: filepath.Join(beside, f.Name), Data: f.Content, Mode: 0o600})
	}
	if err := durable.WriteFiles(contents...); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // the empty one
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if err := os.Rename(beside, dir); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return durable.SyncDir(parent)
}

// Free says why Save would refuse a directory, or nil.
func Free(dir string) error {
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("write to %s: it has to be a directory that is new or empty: %w", dir, err)
	case len(entries) > 0:
		return fmt.Errorf("write to %s: there are files in it already, and nothing is mixed with them: name a directory that is new or empty", dir)
	}
	return nil
}

// Tar writes files as a tar, owned by root, mode 0600. Its errors are the writer's.
func Tar(w io.Writer, files []File, now time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o600, Size: int64(len(f.Content)), ModTime: now.UTC().Truncate(time.Second)}
		if err := t.WriteHeader(header); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := t.Write(f.Content); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("pack the export: %w", err)
	}
	return nil
}

// Complete says why files that were carried somewhere are not a whole export, or nil: one is missing, or is not what its checksum says. The error is
// for the person who has the files.
func Complete(files []File) error {
	var rest []File
	given := map[string][]byte{}
	for _, f := range files {
		given[f.Name] = f.Content
		if f.Name != SumsFile {
			rest = append(rest, f)
		}
	}
	for _, name := range []string{ConfigFile, StateFile, KubeconfigFile, ReadmeFile, SumsFile} {
		if given[name] == nil {
			return fmt.Errorf("the export lacks %s: it is cut off", name)
		}
	}
	if !bytes.Equal(given[SumsFile], sums(rest)) {
		return fmt.Errorf("the files of the export are not those of its %s: it is damaged", SumsFile)
	}
	return nil
}

// maxUnpacked bounds what Untar reads, in bytes: a state, and as much again for all else.
const maxUnpacked = 2 * state.MaxSize

// Untar reads what Tar wrote. The names are those of files without a directory, each once.
// Another name, a name twice, and more than the limit are errors.
func Untar(r io.Reader) ([]File, error) {
	limited := &io.LimitedReader{R: r, N: maxUnpacked}
	t := tar.NewReader(limited)
	var files []File
	for {
		header, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return files, nil
		case err != nil:
			return nil, fmt.Errorf("unpack the export: %w", err)
		case header.Typeflag != tar.TypeReg || header.Name != filepath.Base(header.Name):
			return nil, fmt.Errorf("unpack the export: %q is not a file without a directory", header.Name)
		case slices.ContainsFunc(files, func(f File) bool { return f.Name == header.Name }):
			return nil, fmt.Errorf("unpack the export: %s is there twice", header.Name)
		}
		text, err := io.ReadAll(t)
		if limited.N <= 0 {
			return nil, fmt.Errorf("unpack the export: it has more than %d bytes", maxUnpacked)
		}
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", header.Name, err)
		}
		files = append(files, File{Name: header.Name, Content: text})
	}
}

// Seal is files as one that only the recipients can read: public keys of age (age1…) or SSH keys
// (ssh-ed25519 …, ssh-rsa …). `age --decrypt --identity KEY rke-export.tar.age | tar --extract` opens it. A key that is none of these is an error.
func Seal(files []File, recipients []string, now time.Time) (File, error) {
	keys, err := Recipients(recipients)
	if err != nil {
		return File{}, err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, keys...)
	if err != nil {
		return File{}, fmt.Errorf("encrypt the export: %w", err)
	}
	if err := Tar(w, files, now); err != nil {
		return File{}, err
	}
	if err := w.Close(); err != nil {
		return File{}, fmt.Errorf("encrypt the export: %w", err)
	}
	return File{SealedFile, sealed.Bytes()}, nil
}

// Recipients reads public keys. An error does not repeat what was given: it may be a private key.
func Recipients(given []string) ([]age.Recipient, error) {
	var keys []age.Recipient
	for i, text := range given {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "ssh-") {
			key, err := agessh.ParseRecipient(text)
			if err != nil {
				return nil, fmt.Errorf("recipient %d: is not a public SSH key of the kinds ssh-ed25519 and ssh-rsa", i+1)
			}
			keys = append(keys, key)
			continue
		}
		if strings.HasPrefix(strings.ToUpper(text), "AGE-SECRET-KEY-") {
			return nil, fmt.Errorf("recipient %d: is a private key; give the public one, which begins with age1, and take this one for known to others", i+1)
		}
		read, err := age.ParseRecipients(strings.NewReader(text)) // also the kinds that are yet to come
		if err != nil || len(read) != 1 {
			return nil, fmt.Errorf("recipient %d: is not a public key of age (age1…) or SSH (ssh-ed25519 …)", i+1)
		}
		keys = append(keys, read[0])
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no recipient to encrypt for")
	}
	return keys, nil
}

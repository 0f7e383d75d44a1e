// Package backup is a drover server as one file: a consistent snapshot of its store, what a
// person needs to know of it before it is used, and, where wanted, the keys without which the
// store cannot be read and hosts do not trust the server. Files are made while the server serves,
// by people or on a schedule, and become a data directory again on a host where none runs.
//
// A file is a tar, in the format of age where it is encrypted:
//
//	manifest.json   Manifest, first
//	etcd.snapshot   the store as by `etcdctl snapshot save`; its secrets are encrypted with the key file
//	encryption.key  the key file, with the keys
//	tls/ca.crt, tls/ca.key   the authority that hosts have pinned, with the keys
//	SHA256SUMS      the sums of all of these as by sha256sum, last: a file without it is cut off
package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"
)

// Names of the entries.
const (
	manifestName = "manifest.json"
	snapshotName = "etcd.snapshot"
	keyFileName  = "encryption.key"
	caCertName   = "tls/ca.crt"
	caKeyName    = "tls/ca.key"
	sumsName     = "SHA256SUMS"
)

const (
	// format is that of the file.
	format = 1
	// maxSmall bounds every entry but the snapshot, in bytes, and maxSnapshot that one.
	maxSmall    = 1 << 20
	maxSnapshot = 64 << 30
)

// Manifest says what a backup is of.
type Manifest struct {
	// Format is that of the file, Schema that of the documents in it.
	Format int `json:"format"`
	Schema int `json:"schema"`
	// Version is that of the drover that made it, at Made.
	Version string    `json:"version"`
	Made    time.Time `json:"made"`
	// Installation is the setting install-uuid: two servers never have the same.
	Installation string `json:"installation"`
	ServerURL    string `json:"serverURL"`
	// Revision is one up to which the backup has every write; it may have newer ones.
	Revision int64 `json:"revision"`
	// DataKey is the id of the key in the key file that its secrets are encrypted with.
	DataKey string `json:"dataKey"`
	// Authority is the SHA-256 in hex of the authority that hosts have pinned; empty: the server's
	// certificate is of an outside authority.
	Authority string `json:"authority,omitempty"`
	// Keys says that the key file and the authority are in it.
	Keys bool `json:"keys"`
}

// File is a small entry, in the form of a file below the data directory.
type File struct {
	Name    string
	Content []byte
}

// DamagedError says that a backup is not what was written.
type DamagedError struct{ what string }

func (e *DamagedError) Error() string {
	return e.what + ": copy it again from where it was made, or take another backup"
}

func damaged(format string, args ...any) error { return &DamagedError{fmt.Sprintf(format, args...)} }

// Writer writes a backup, entry by entry.
type Writer struct {
	tar    *tar.Writer
	madeAt time.Time
	name   string    // of the current entry
	sum    hash.Hash // of the current entry; nil: there is none
	sums   bytes.Buffer
}

// NewWriter begins a backup. Its error is the writer's.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	m.Format = format
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	b := &Writer{tar: tar.NewWriter(w), madeAt: m.Made}
	return b, b.Add(File{manifestName, append(text, '\n')})
}

// Add writes a small entry. Its error is the writer's.
func (b *Writer) Add(f File) error {
	to, err := b.begin(f.Name, int64(len(f.Content)))
	if err == nil {
		_, err = to.Write(f.Content)
	}
	if err != nil {
		return fmt.Errorf("write %s of the backup: %w", f.Name, err)
	}
	return nil
}

// Snapshot is where the store is to be written, of which there are size bytes. Its error is the writer's.
func (b *Writer) Snapshot(size int64) (io.Writer, error) {
	to, err := b.begin(snapshotName, size)
	if err != nil {
		return nil, fmt.Errorf("write %s of the backup: %w", snapshotName, err)
	}
	return to, nil
}

// Close ends the backup. A backup that was not closed is refused by Reader.
func (b *Writer) Close() error {
	b.finish()
	if err := b.Add(File{sumsName, bytes.Clone(b.sums.Bytes())}); err != nil {
		return err
	}
	if err := b.tar.Close(); err != nil {
		return fmt.Errorf("write the end of the backup: %w", err)
	}
	return nil
}

func (b *Writer) begin(name string, size int64) (io.Writer, error) {
	b.finish()
	b.name, b.sum = name, sha256.New()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size, ModTime: b.madeAt.UTC().Truncate(time.Second)}
	return io.MultiWriter(b.tar, b.sum), b.tar.WriteHeader(header)
}

// finish notes the sum of the current entry.
func (b *Writer) finish() {
	if b.sum != nil {
		b.sums.WriteString(sumLine(b.sum.Sum(nil), b.name))
		b.sum = nil
	}
}

func sumLine(sum []byte, name string) string { return hex.EncodeToString(sum) + "  " + name + "\n" }

// Reader reads a backup, entry by entry. What it has handed out is to be trusted once Next has
// returned io.EOF.
type Reader struct {
	// Manifest is of the backup.
	Manifest Manifest

	from    io.Reader
	tar     *tar.Reader
	names   []string
	sums    strings.Builder
	current hash.Hash
}

// NewReader begins to read a backup that is not encrypted, or not any more. What is no backup, or of a newer format, is an error.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{from: r, tar: tar.NewReader(r)}
	name, _, content, err := b.Next()
	if err != nil {
		return nil, err
	}
	if name != manifestName {
		return nil, damaged("it is not a backup of a drover server: it begins with %.40q and not with %s", name, manifestName)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &b.Manifest); err != nil {
		return nil, damaged("its %s cannot be read (%v)", manifestName, err)
	}
	if b.Manifest.Format != format {
		return nil, fmt.Errorf("it was made by drover %.40s in format %d, and this drover knows format %d: restore it with drover %.40s or a newer one",
			b.Manifest.Version, b.Manifest.Format, format, b.Manifest.Version)
	}
	return b, nil
}

// Next is the next entry; io.EOF when there is no other and all were what was written. Content may be left unread. Other errors say what is damaged.
func (b *Reader) Next() (name string, size int64, content io.Reader, err error) {
	if err := b.finish(); err != nil {
		return "", 0, nil, err
	}
	header, err := b.tar.Next()
	if err != nil {
		return "", 0, nil, unreadable(err)
	}
	name, size = header.Name, header.Size
	limit := int64(maxSmall)
	switch name {
	case snapshotName:
		limit = maxSnapshot
	case manifestName, keyFileName, caCertName, caKeyName, sumsName:
	default:
		return "", 0, nil, damaged("it has an entry %.60q, which backups do not have", name)
	}
	if header.Typeflag != tar.TypeReg || size > limit || slices.Contains(b.names, name) {
		return "", 0, nil, damaged("its entry %s is not as backups have it", name)
	}
	if name == sumsName {
		return "", 0, nil, b.compare()
	}
	b.names = append(b.names, name)
	b.current = sha256.New()
	return name, size, &body{b.tar, b.current}, nil
}

// finish reads what is left of the current entry and notes its sum.
func (b *Reader) finish() error {
	if b.current == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, &body{b.tar, b.current}); err != nil {
		return err
	}
	b.sums.WriteString(sumLine(b.current.Sum(nil), b.names[len(b.names)-1]))
	b.current = nil
	return nil
}

// compare holds the sums to what was read; io.EOF when they agree.
func (b *Reader) compare() error {
	text, err := io.ReadAll(b.tar)
	if err != nil {
		return unreadable(err)
	}
	written := strings.Split(string(text), "\n")
	for line := range strings.Lines(b.sums.String()) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), "  "); !slices.Contains(written, strings.TrimSuffix(line, "\n")) {
			return damaged("%s in it was changed since it was written (its SHA-256 is another one)", name)
		}
	}
	if string(text) != b.sums.String() || !slices.Contains(b.names, snapshotName) {
		return damaged("it lacks a part that it had")
	}
	if _, err := b.tar.Next(); !errors.Is(err, io.EOF) {
		return damaged("it goes on after its end")
	}
	// The end of what is encrypted says that nothing was cut off.
	if _, err := io.Copy(io.Discard, b.from); err != nil {
		return unreadable(err)
	}
	return io.EOF
}

// body is the content of an entry.
type body struct {
	from io.Reader
	sum  hash.Hash
}

func (c *body) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadable(err)
	}
	return n, err
}

// unreadable is a sentence about a file that ends too early or is not a tar.
func unreadable(err error) error {
	if d, ok := errors.AsType[*DamagedError](err); ok {
		return d
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("it is cut off")
	case errors.Is(err, tar.ErrHeader):
		return damaged("it is not a backup of a drover server, or was changed since it was written")
	}
	return fmt.Errorf("read it: %w", err)
}

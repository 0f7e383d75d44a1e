// Package download brings a large file from the server to this machine. The file appears whole or not at all; what was cut off
// stays beside its place, and the same command continues it where it ended.
package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/plans/durable"
)

const (
	// tries is how often the rest is asked for in a row without a byte that came, and pause what is between two.
	tries = 5
	pause = time.Second
	// sumHeader has the SHA-256 of the whole file in hex, where the server knows it.
	sumHeader = apitypes.FileSum
)

// Request is a file that the caller wants.
type Request struct {
	// Path is where the server has it.
	Path string
	// To is the file to write, and Replace says that an existing file is replaced once the new one is whole.
	To      string
	Replace bool
	// Check looks at the file before it gets its name; an error keeps it from that.
	Check func(ctx context.Context, file *os.File, size int64) error
	// Say gets a sentence for a person; see also Done.
	Say func(text string)
}

// Done is a file that has come.
type Done struct {
	// Bytes is its size, and SHA256 that of all of them in hex.
	Bytes  int64
	SHA256 string
	// Header is what the server said of it.
	Header http.Header
}

// part is what has come so far of a file.
type part struct {
	file *os.File
	size int64
	// tag is that of the file at the server; empty where it says none, and nothing is continued.
	tag string
}

// ToFile brings a file to this machine. It refuses to write over what is there, without Replace, and a file of another sum than the server's; errors
// of the way there say how much is kept, so that the next try goes on.
func ToFile(ctx context.Context, c *client.Client, w Request) (done Done, err error) {
	if _, err := os.Lstat(w.To); err == nil && !w.Replace {
		return done, fmt.Errorf("write %s: there is something of that name; --force replaces it", w.To)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("write %s: %w", w.To, err)
	}
	p, err := begun(w.To)
	if err != nil {
		return done, err
	}
	defer func() { p.close() }()
	if done.Header, err = p.fill(ctx, c, w); err != nil {
		return done, p.kept(err)
	}
	done.Bytes = p.size
	if done.SHA256, err = sum(p.file); err != nil {
		return done, p.kept(err)
	}
	if want := done.Header.Get(sumHeader); want != "" && !strings.EqualFold(want, done.SHA256) {
		return done, p.discarded(fmt.Errorf("the file that came has the SHA-256 %s, and the one that was taken has %s", done.SHA256, want))
	}
	if w.Check != nil {
		if err := w.Check(ctx, p.file, p.size); err != nil && ctx.Err() != nil {
			return done, p.kept(err)
		} else if err != nil {
			return done, p.discarded(err)
		}
	}
	if err := p.place(w); err != nil {
		return done, p.kept(fmt.Errorf("write %s: %w", w.To, err))
	}
	return done, nil
}

// ToWriter writes a file to a writer as it comes. Nothing is continued: an error says that what was written is not whole.
func ToWriter(ctx context.Context, c *client.Client, path string, to io.Writer) (Done, error) {
	answer, err := c.Rest(ctx, path, 0, "")
	if err != nil {
		return Done{}, err
	}
	defer answer.Body.Close()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, hash), answer.Body)
	done := Done{Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil)), Header: answer.Header}
	switch want := answer.Header.Get(sumHeader); {
	case err != nil:
		return done, fmt.Errorf("cut off after %d bytes: %w", n, err)
	case answer.ContentLength >= 0 && n != answer.ContentLength:
		return done, fmt.Errorf("cut off after %d bytes of %d", n, answer.ContentLength)
	case want != "" && !strings.EqualFold(want, done.SHA256):
		return done, fmt.Errorf("what came has the SHA-256 %s, and the one that was taken has %s", done.SHA256, want)
	}
	return done, nil
}

// tags are those that a file's name can have in it.
var tags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^"[A-Za-z0-9][A-Za-z0-9._-]{0,119}"$`) })

// name is that of what has come so far: the tag in it says of which file it is.
func name(to, tag string) string {
	if tag = strings.Trim(tag, `"`); tag == "" {
		return to + ".part"
	}
	return to + "." + tag + ".part"
}

// begun finds what an earlier run left of a file.
func begun(to string) (*part, error) {
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", to, err)
	}
	for _, e := range entries {
		tag, ours := strings.CutPrefix(e.Name(), filepath.Base(to)+".")
		tag, whole := strings.CutSuffix(tag, ".part")
		tag = strconv.Quote(tag)
		if !ours || !whole || !tags().MatchString(tag) || !e.Type().IsRegular() {
			continue
		}
		p, err := open(filepath.Join(filepath.Dir(to), e.Name()), 0)
		if err != nil {
			return nil, err
		}
		if p.size, err = p.file.Seek(0, io.SeekEnd); err != nil {
			return nil, errors.Join(err, p.file.Close())
		}
		p.tag = tag
		return p, nil
	}
	return &part{}, nil
}

// open opens the file of a part, which one program at a time has.
func open(path string, flags int) (*part, error) {
	f, err := os.OpenFile(path, os.O_RDWR|durable.NoFollow|flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = durable.TryLock(f)
	if errors.Is(err, durable.ErrLocked) {
		err = errors.New("it is being downloaded by another program")
	}
	if err == nil {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	return &part{file: f}, nil
}

func (p *part) close() {
	if p.file != nil {
		_ = p.file.Close() // what counts was synced
	}
}

// kept says of an error where what has come is.
func (p *part) kept(err error) error {
	if p.size == 0 || p.tag == "" {
		return errors.Join(err, p.removed())
	}
	return fmt.Errorf("%w; %d bytes are in %s, and the same command continues there", err, p.size, p.file.Name())
}

// discarded removes what has come and is of no use.
func (p *part) discarded(err error) error {
	return errors.Join(fmt.Errorf("%w; it was removed again", err), p.removed())
}

func (p *part) removed() error {
	if p.file == nil {
		return nil
	}
	return os.Remove(p.file.Name())
}

// fill gets what is missing of a file, again when it is cut off.
func (p *part) fill(ctx context.Context, c *client.Client, w Request) (http.Header, error) {
	for stalled := 1; ; stalled++ {
		before := p.size
		header, err := p.more(ctx, c, w)
		cut, was := errors.AsType[*cutError](err)
		if !was {
			return header, err
		}
		if p.size > before {
			stalled = 0
		}
		if stalled >= tries {
			return header, err
		}
		if w.Say != nil {
			w.Say(cut.Error() + "; asking for the rest")
		}
		select {
		case <-ctx.Done():
			return header, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// cutError is that a file ended before its end.
type cutError struct {
	got, of int64
	cause   error
}

func (e *cutError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("cut off after %d bytes of %d: %v", e.got, e.of, e.cause)
	}
	return fmt.Sprintf("cut off after %d bytes of %d", e.got, e.of)
}

// more asks once for what is missing.
func (p *part) more(ctx context.Context, c *client.Client, w Request) (http.Header, error) {
	from := p.size
	if p.tag == "" {
		from = 0
	}
	answer, err := c.Rest(ctx, w.Path, from, p.tag)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusRequestedRangeNotSatisfiable && from > 0 {
		from = 0 // there is nothing behind it: it comes as a whole
		answer, err = c.Rest(ctx, w.Path, 0, "")
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.ContentLength < 0 {
		return answer.Header, errors.New("the server does not say how large the file is")
	}
	if answer.StatusCode == http.StatusPartialContent && answer.Header.Get("ETag") == p.tag && strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
		if w.Say != nil {
			w.Say(fmt.Sprintf("continuing after %d bytes", from))
		}
	} else if answer.StatusCode != http.StatusOK {
		return answer.Header, errors.New("the server sends another part of the file than was asked for")
	} else if err := p.anew(w.To, answer.Header.Get("ETag")); err != nil {
		return answer.Header, err
	}
	of := p.size + answer.ContentLength
	n, err := io.Copy(&writer{p}, answer.Body)
	switch failed, own := errors.AsType[*writeError](err); {
	case own:
		return answer.Header, failed
	case ctx.Err() != nil:
		return answer.Header, context.Cause(ctx)
	case err != nil || n != answer.ContentLength:
		return answer.Header, &cutError{p.size, of, err}
	}
	return answer.Header, nil
}

// anew begins a file at its beginning.
func (p *part) anew(to, tag string) error {
	if !tags().MatchString(tag) {
		tag = ""
	}
	if p.file != nil {
		if err := errors.Join(os.Remove(p.file.Name()), p.file.Close()); err != nil {
			return err
		}
	}
	*p = part{}
	next, err := open(name(to, tag), os.O_CREATE)
	if err != nil {
		return err
	}
	next.tag = tag
	*p = *next
	return p.file.Truncate(0)
}

// writer appends to a part.
type writer struct{ p *part }

// writeError is that this machine cannot keep what comes.
type writeError struct{ cause error }

func (e *writeError) Error() string { return e.cause.Error() }

func (e *writeError) Unwrap() error { return e.cause }

func (w *writer) Write(b []byte) (int, error) {
	n, err := w.p.file.WriteAt(b, w.p.size)
	w.p.size += int64(n)
	if err != nil {
		return n, &writeError{err}
	}
	return n, nil
}

// sum is the SHA-256 of a file in hex.
func sum(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// place gives the file its name.
func (p *part) place(w Request) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if w.Replace {
		if err := os.Rename(p.file.Name(), w.To); err != nil {
			return err
		}
	} else {
		if err := os.Link(p.file.Name(), w.To); err != nil { // unlike a rename this replaces nothing
			return err
		}
		if err := os.Remove(p.file.Name()); err != nil {
			return err
		}
	}
	return durable.SyncDir(filepath.Dir(w.To))
}

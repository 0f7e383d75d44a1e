// Where data come from besides the binary: a file or an address, read again while the
// server runs.

package versions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/plans/fetch"
)

// Bounds of reading.
const (
	maxDocument = 32 << 20 // bytes; Rancher's whole document has about 10 MiB
	fetchLimit  = 5 * time.Second
)

var limit = fetch.Limit{Bytes: maxDocument, Over: fmt.Sprintf("it has more than %d MiB", maxDocument>>20)}

// copyFile is the last good copy of an address below the server's data directory.
const copyFile = "version-data.json"

// Options of a source.
type Options struct {
	// Location is a file or an http(s) address; "" has the built-in data only.
	Location string
	// DataDir gets the last good copy of an address.
	DataDir string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Status says where the data of a source are from.
type Status struct {
	// Location is the file or address without credentials; "" for the built-in data alone.
	Location string
	// Date is that of the data themselves.
	Date string
	// Read is when the data of Location were last found to be current; zero while they never were.
	Read time.Time
	// Fault is why the last try to read Location failed; "" when it did not.
	Fault string
}

// Source owns the current data. A document that cannot be had or is not right never replaces a good one.
type Source struct {
	Options
	base    *Data
	current atomic.Pointer[Data]

	// What the worker alone uses after Open.
	etag  string
	stamp fileStamp

	mu       sync.Mutex // of what follows
	status   Status
	onChange []func(before, after *Data)
}

// fileStamp is what a file's change is seen by.
type fileStamp struct {
	size    int64
	changed time.Time
}

// Open makes a source with what is at hand: of a file its data, of an address its last good copy,
// and the built-in data. It sends no request; the worker does. A file that cannot be read or is wrong is an error.
func Open(o Options) (*Source, error) {
	s := &Source{Options: o}
	var err error
	if s.base, err = Load(""); err != nil {
		return nil, err
	}
	s.current.Store(s.base)
	s.status = Status{Location: fetch.Shown(o.Location), Date: s.base.Date}
	switch {
	case o.Location == "":
	case s.Fetched():
		s.restore()
	default:
		if err := s.readFile(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Data are the current ones. A caller that needs them twice for one decision asks once.
func (s *Source) Data() *Data { return s.current.Load() }

// Fetched says that the location is an address, and not a file.
func (s *Source) Fetched() bool { return fetch.IsAddress(s.Location) }

// Status says where the current data are from.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// OnChange has f called after the data changed. It must be called before the worker runs.
func (s *Source) OnChange(f func(before, after *Data)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, f)
}

// Refresh reads the location once, and notes why it could not. transport fetches; nil takes http.DefaultTransport. The error is the reason, or the
// context's.
func (s *Source) Refresh(ctx context.Context, transport http.RoundTripper) error {
	read := s.readFile
	if s.Fetched() {
		read = func() error { return s.fetch(ctx, transport) }
	}
	err := read()
	if err == nil || ctx.Err() != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Fault = err.Error()
	return fmt.Errorf("renew the version data; those at hand stay in use: %w", err)
}

// take makes a document the current one, read at a time.
func (s *Source) take(source string, text []byte, read time.Time) error {
	next, err := s.base.with(source, text)
	if err != nil {
		return err
	}
	before := s.current.Swap(next)
	s.mu.Lock()
	s.status.Date, s.status.Read, s.status.Fault = next.Date, read, ""
	told := s.onChange
	s.mu.Unlock()
	for _, f := range told {
		f(before, next)
	}
	return nil
}

// readFile takes the file where it has changed.
func (s *Source) readFile() error {
	info, err := os.Stat(s.Location)
	if err != nil {
		s.stamp = fileStamp{}
		return fmt.Errorf("read version data: %w", err)
	}
	stamp := fileStamp{info.Size(), info.ModTime()}
	if stamp == s.stamp {
		return s.fault()
	}
	text, err := readFile(s.Location)
	if err != nil {
		return err
	}
	s.stamp = stamp
	return s.take(s.Location, text, s.Now().UTC())
}

// fault is that of the last try, for a file that has not changed since.
func (s *Source) fault() error {
	if text := s.Status().Fault; text != "" {
		return errors.New(text)
	}
	s.confirm()
	return nil
}

func (s *Source) confirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Read, s.status.Fault = s.Now().UTC(), ""
}

// fetch asks the address whether there is something new, and takes it.
func (s *Source) fetch(ctx context.Context, transport http.RoundTripper) error {
	where := fetch.Shown(s.Location)
	answer, err := fetch.Get(ctx, fetch.Request{Address: s.Location, ETag: s.etag, Limit: limit, Within: fetchLimit, Transport: transport})
	if err != nil {
		return fmt.Errorf("fetch version data from %s: %w", where, err)
	}
	if answer.Same {
		s.confirm()
		return nil
	}
	now := s.Now().UTC()
	if err := s.take(where, answer.Text, now); err != nil {
		return err
	}
	s.etag = answer.ETag
	if err := s.keep(kept{Location: s.Location, ETag: s.etag, Read: now, Document: answer.Text}); err != nil {
		s.Logger.Warn("the copy of the version data for the time without a network could not be written", "error", err)
	}
	s.Logger.Info("version data renewed", "from", where, "date", s.Data().Date)
	return nil
}

// kept is the last good copy of an address.
type kept struct {
	Location string          `json:"location"`
	ETag     string          `json:"etag"`
	Read     time.Time       `json:"read"`
	Document json.RawMessage `json:"document"`
}

// keep writes the copy beside its place and renames it. It has the address, which may hold a password.
func (s *Source) keep(k kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("write %s: %w", copyFile, err)
	}
	f, err := os.CreateTemp(s.DataDir, "."+copyFile+"-*") // readable for its owner alone
	if err != nil {
		return fmt.Errorf("write %s: %w", copyFile, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.DataDir, copyFile))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", copyFile, err), os.Remove(f.Name()))
	}
	return nil
}

// restore takes the last good copy of the address, if there is one.
func (s *Source) restore() {
	text, err := readFile(filepath.Join(s.DataDir, copyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err == nil && k.Location != s.Location {
		return // of an address that was given before
	}
	if err == nil {
		err = s.take(copyFile, k.Document, k.Read)
	}
	if err != nil {
		s.Logger.Warn("the copy of the version data cannot be used; they are fetched anew", "error", err)
		return
	}
	s.etag = k.ETag
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read version data: %w", err)
	}
	defer f.Close()
	text, err := limit.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read version data of %s: %w", file, err)
	}
	return text, nil
}

// The log: entries come in from many requests, one goroutine writes them.

package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/server/randomid"
)

const (
	// maxQueued is how many lines may wait to be written.
	maxQueued = 1024
	// patience is how long a request waits until its entry is written, before it goes on without.
	patience = time.Second
	// tickEvery is how often sums are looked at and lines are made durable.
	tickEvery = time.Second
	// complainEvery is the shortest time between two reports of entries that are lost.
	complainEvery = time.Minute
	mebibyte      = 1 << 20
	day           = 24 * time.Hour
)

// Names of the settings.
const (
	SettingLevel    = "audit-level"
	SettingFilter   = "audit-filter"
	SettingFileMiB  = "audit-max-file-mib"
	SettingFiles    = "audit-max-files"
	SettingDays     = "audit-max-days"
	settingsKind    = "setting"
	settingsOfAudit = "audit-"
)

// Options of a log.
type Options struct {
	// Dir is the directory of the files; it is made if it is missing.
	Dir string
	// Server is the name of this server in its entries.
	Server string
	// Setting is the value of a setting now.
	Setting func(name string) string
	Now     func() time.Time
	// Logger gets what goes wrong with the log itself.
	Logger *slog.Logger
}

// Log is the audit log of a server. A nil Log records nothing.
type Log struct {
	Options
	queue chan line
	stop  chan struct{} // closed by Close
	done  chan struct{} // closed when all is written
	once  sync.Once

	filter atomic.Pointer[parsed]
	total  atomic.Int64 // lines written since the start
	lost   atomic.Int64 // entries lost since the start

	mu      sync.Mutex
	refused sums
	unsaid  gap           // lost, and not yet said so in the log
	more    chan struct{} // closed by the next line, then replaced

	complained time.Time // when something wrong was reported last

	// Of the goroutine that writes.
	files files
	dirty bool
}

// line is an entry on its way; written is closed when it is in the file, or lost.
type line struct {
	text    []byte
	written chan struct{}
}

// gap is entries that were lost.
type gap struct {
	count       int
	first, last time.Time
}

// parsed is a filter with the text that it was made of.
type parsed struct {
	text   string
	filter Filter
}

// Open opens the log and goes on with the newest file; Close ends that. The error names the directory and says why it cannot be written.
func Open(o Options) (*Log, error) {
	l := &Log{
		Options: o, queue: make(chan line, maxQueued), stop: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{}),
		files: files{dir: o.Dir, create: create},
	}
	l.files.report = func(err error) { l.complain("the audit log is written, and something is wrong with its files", err) }
	if err := l.files.open(); err != nil {
		return nil, fmt.Errorf("open the audit log in %s: %w", o.Dir, err)
	}
	go l.run()
	return l, nil
}

// Close writes what is waiting and closes the files. What is recorded afterwards is lost, and counted.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.once.Do(func() { close(l.stop) })
	<-l.done
}

// Level is how much is recorded now.
func (l *Log) Level() Level {
	if l == nil {
		return Off
	}
	return LevelOf(l.Setting(SettingLevel))
}

// Totals are how many entries were written and how many were lost since the start.
func (l *Log) Totals() (written, lost int64) { return l.total.Load(), l.lost.Load() }

// NewID is the id of a request.
func (l *Log) NewID() string { return randomid.ID(12) }

// Record takes an entry of a class if level and filter want it. The caller waits until a change or the
// use of a way in is written, at most a second: a caller that has the answer finds the entry in the log.
func (l *Log) Record(c Class, e Entry) {
	if l == nil {
		return
	}
	mandatory := e.Kind == settingsKind && len(e.Object) > len(settingsOfAudit) && e.Object[:len(settingsOfAudit)] == settingsOfAudit && c == Change
	level := l.Level()
	if !mandatory {
		if level == Off || !level.Takes(c) && !refused(e) {
			return
		}
		if l.left().Leaves(e) {
			return
		}
	}
	if counted(c, e) {
		l.mu.Lock()
		asItIs := l.refused.add(e, l.Now().UTC())
		l.mu.Unlock()
		if !asItIs {
			return
		}
	}
	l.put(e, c == Change || c == WayIn)
}

// left is the filter of now.
func (l *Log) left() Filter {
	text := l.Setting(SettingFilter)
	if known := l.filter.Load(); known != nil && known.text == text {
		return known.filter
	}
	f, err := ParseFilter(text)
	if err != nil {
		f = nil // a mistake records more and not less; the setting was checked
	}
	l.filter.Store(&parsed{text, f})
	return f
}

// put hands an entry to the goroutine that writes.
func (l *Log) put(e Entry, wait bool) {
	text, err := l.encode(e)
	if err != nil {
		l.lose(e.Time, err)
		return
	}
	one := line{text: text, written: make(chan struct{})}
	if !wait {
		select {
		case <-l.stop:
			l.lose(e.Time, errClosed)
			return
		default:
		}
		select {
		case l.queue <- one:
		default:
			l.lose(e.Time, errFull)
		}
		return
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-l.stop:
		l.lose(e.Time, errClosed)
		return
	case <-limit.C:
		l.lose(e.Time, errFull)
		return
	case l.queue <- one:
	}
	select {
	case <-one.written:
	case <-limit.C: // it is still on its way
	case <-l.done:
		select {
		case <-one.written:
		default: // it came in while the log was closed
			l.lose(e.Time, errClosed)
		}
	}
}

func (l *Log) encode(e Entry) ([]byte, error) {
	e.Time, e.Server = e.Time.UTC().Truncate(time.Millisecond), l.Server
	if e.ID == "" {
		e.ID = l.NewID()
	}
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

// lose counts an entry that is not in the log.
func (l *Log) lose(at time.Time, cause error) {
	l.lost.Add(1)
	l.mu.Lock()
	if l.unsaid.count == 0 {
		l.unsaid.first = at
	}
	l.unsaid.count++
	l.unsaid.last = at
	l.mu.Unlock()
	l.complain("an entry of the audit log is lost", cause)
}

// Why an entry is lost that was never tried to be written.
var (
	errFull   = errors.New("too many entries wait to be written: the disk is too slow, or hangs")
	errClosed = errors.New("the log is closed")
)

// run writes until Close, and then what is left.
func (l *Log) run() {
	defer close(l.done)
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case one := <-l.queue:
			l.write(one)
		case <-ticker.C:
			l.tick(false)
		case <-l.stop:
			for {
				select {
				case one := <-l.queue:
					l.write(one)
					continue
				default:
				}
				break
			}
			l.tick(true)
			if err := l.files.close(); err != nil {
				l.complain("the audit log could not be closed", err)
			}
			return
		}
	}
}

// tick does what is due once a second: sums, the report of what is lost, and that lines last.
func (l *Log) tick(last bool) {
	l.files.look()
	l.mu.Lock()
	due := l.refused.due(l.Now().UTC(), last)
	l.mu.Unlock()
	for _, e := range due {
		if text, err := l.encode(e); err == nil {
			l.write(line{text: text, written: make(chan struct{})})
		}
	}
	l.fill()
	if l.dirty {
		if err := l.files.sync(); err != nil {
			l.complain("lines of the audit log may not be on the disk", err)
		}
		l.dirty = false
	}
}

// write writes a line, behind that of a gap if there is one.
func (l *Log) write(one line) {
	defer close(one.written)
	l.fill()
	if err := l.files.write(one.text, l.Now(), l.limits()); err != nil {
		var e Entry
		_ = json.Unmarshal(one.text, &e) // it was encoded a moment ago; its time is all that is wanted
		l.lose(e.Time, err)
		return
	}
	l.wrote()
}

// fill says in the log how many entries are missing, once there is room for it.
func (l *Log) fill() {
	l.mu.Lock()
	missing := l.unsaid
	l.unsaid = gap{}
	l.mu.Unlock()
	if missing.count == 0 {
		return
	}
	until := missing.last.UTC()
	text, err := l.encode(Entry{Stage: Gap, Time: missing.first, Until: &until, Count: missing.count})
	if err == nil {
		err = l.files.write(text, l.Now(), l.limits())
	}
	if err == nil {
		l.wrote()
		return
	}
	l.complain("entries of the audit log are lost", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsaid.count == 0 {
		l.unsaid.last = missing.last
	}
	l.unsaid.first = missing.first
	l.unsaid.count += missing.count
}

// wrote wakes those who follow.
func (l *Log) wrote() {
	l.total.Add(1)
	l.dirty = true
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
}

// More is closed by the next line.
func (l *Log) More() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

// complain reports what is wrong with the log, once a minute at most.
func (l *Log) complain(what string, err error) {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if passed := now.Sub(l.complained); !l.complained.IsZero() && passed >= 0 && passed < complainEvery {
		return
	}
	l.complained = now
	l.Logger.Error(what, "directory", l.Dir, "lost", l.lost.Load(), "error", err)
}

func (l *Log) limits() Limits {
	number := func(name string, otherwise int64) int64 {
		if n, err := strconv.ParseInt(l.Setting(name), 10, 32); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	return Limits{
		FileBytes: number(SettingFileMiB, 50) * mebibyte, Files: int(number(SettingFiles, 20)),
		Age: time.Duration(min(number(SettingDays, 90), 36_500)) * day,
	}
}

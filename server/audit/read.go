// Reading the log while it is written.

package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds a line that is read; those that are written are shorter.
const maxLine = 256 << 10

// Place is a place in the log, from which a follower goes on.
type Place struct {
	file   string
	offset int64
}

// String is the place as ParsePlace reads it; empty for the zero value.
func (p Place) String() string {
	if p.file == "" {
		return ""
	}
	return p.file + ":" + strconv.FormatInt(p.offset, 10)
}

// ParsePlace reads a place. Nothing says that there is something at it. The error says that the text is none.
func ParsePlace(text string) (Place, error) {
	file, number, _ := strings.Cut(text, ":")
	offset, err := strconv.ParseInt(number, 10, 64)
	if _, bad := begin(file); bad != nil || err != nil || offset < 0 {
		return Place{}, fmt.Errorf("%.60q is not a place in the log", text)
	}
	return Place{file, offset}, nil
}

// Found is a part of the log.
type Found struct {
	// Entries are those that were wanted, oldest first.
	Entries []Entry
	// More says that there are older ones.
	More bool
	// Torn is how many lines of the files that were read are no entry: cut off when a server was killed.
	Torn int
	// End is where the log ended.
	End Place
	// First is where the oldest of the entries is, and Last where the newest one is; zero for none.
	First, Last Place
}

// Newest are the newest entries that the reader wants, at most so many. The errors are those of reading the files, and the context's.
func (l *Log) Newest(ctx context.Context, q Query, most int) (Found, error) {
	return l.Before(ctx, q, Place{}, most)
}

// errEnough ends a scan.
var errEnough = errors.New("what is wanted was read")

// placed is an entry with where it is.
type placed struct {
	Entry
	at Place
}

// Before are the newest entries before a place, at most so many; before the zero value is the end of the log. Errors are those of reading files.
func (l *Log) Before(ctx context.Context, q Query, p Place, most int) (Found, error) {
	names, err := list(l.Dir)
	if err != nil {
		return Found{}, err
	}
	if p.file != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name > p.file })
	}
	var found Found
	var all []placed
	for i := len(names) - 1; i >= 0; i-- {
		if i+1 < len(names) {
			// All lines of a file are older than the next one.
			if ended, _ := begin(names[i+1]); ended.Before(q.Since) { // it is in the list
				break
			}
		}
		if len(all) >= most {
			found.More = true
			break
		}
		var here []placed
		room := most - len(all)
		end, torn, err := l.scan(ctx, Place{file: names[i]}, i == len(names)-1, func(e Entry, at Place) error {
			if names[i] == p.file && at.offset >= p.offset {
				return errEnough
			}
			if !q.Wants(e) {
				return nil
			}
			here = append(here, placed{e, at})
			if len(here) >= 2*room+1 {
				here, found.More = append(here[:0], here[len(here)-room:]...), true
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEnough) { // it was too old meanwhile
			return Found{}, err
		}
		if i == len(names)-1 {
			found.End = end
		}
		if len(here) > room {
			here, found.More = here[len(here)-room:], true
		}
		found.Torn += torn
		all = append(here, all...)
	}
	found.hold(all)
	return found, nil
}

// hold makes a part of entries.
func (f *Found) hold(all []placed) {
	for _, one := range all {
		f.Entries = append(f.Entries, one.Entry)
	}
	if len(all) > 0 {
		f.First, f.Last = all[0].at, all[len(all)-1].at
	}
}

// After are the oldest entries behind that at a place, at most so many. Where the end of the log is nearer, they are the newest. The errors are those
// of reading the files, and the context's.
func (l *Log) After(ctx context.Context, q Query, p Place, most int) (Found, error) {
	var all []placed
	_, err := l.from(ctx, p, q, func(e Entry, at Place) error {
		if at == p {
			return nil
		}
		if all = append(all, placed{e, at}); len(all) > most {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Found{}, err
	}
	if len(all) <= most {
		return l.Newest(ctx, q, most)
	}
	found := Found{More: true}
	found.hold(all[:most])
	return found, nil
}

// From reads on from a place, and hands over each entry that the reader wants. It ends at the end of the log,
// or with the error of yield.
func (l *Log) From(ctx context.Context, p Place, q Query, yield func(Entry) error) (Place, error) {
	return l.from(ctx, p, q, func(e Entry, _ Place) error { return yield(e) })
}

func (l *Log) from(ctx context.Context, p Place, q Query, yield func(Entry, Place) error) (Place, error) {
	for {
		names, err := after(l.Dir, p.file)
		if err != nil {
			return p, err
		}
		if len(names) == 0 {
			return p, nil
		}
		if names[0] != p.file {
			p = Place{file: names[0]}
		}
		end, _, err := l.scan(ctx, p, len(names) == 1, func(e Entry, at Place) error {
			if !q.Wants(e) {
				return nil
			}
			return yield(e, at)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return end, err
		}
		if p = end; len(names) == 1 {
			return p, nil
		}
		p = Place{file: names[1]}
	}
}

// scan reads a file from a place on. A line without an end is still being written where the file is the
// newest, and else cut off.
func (l *Log) scan(ctx context.Context, p Place, newest bool, yield func(e Entry, at Place) error) (end Place, torn int, err error) {
	file, err := os.Open(filepath.Join(l.Dir, p.file))
	if err != nil {
		return p, 0, err
	}
	defer file.Close()
	if _, err := file.Seek(p.offset, io.SeekStart); err != nil {
		return p, 0, err
	}
	reader := bufio.NewReaderSize(file, maxLine)
	for lines := 0; ; lines++ {
		if lines%1024 == 0 && ctx.Err() != nil {
			return p, torn, ctx.Err()
		}
		text, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return p, torn, nil
		case errors.Is(err, io.EOF):
			if newest {
				return p, torn, nil
			}
			return p, torn + 1, nil
		case errors.Is(err, bufio.ErrBufferFull): // no line of ours
			p.offset += int64(len(text))
			torn++
			continue
		case err != nil:
			return p, torn, err
		}
		at := p
		p.offset += int64(len(text))
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var e Entry
		if json.Unmarshal(text, &e) != nil || e.ID == "" {
			torn++
			continue
		}
		if err := yield(e, at); err != nil {
			return p, torn, err
		}
	}
}

// Reading the log while it is written.

package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLine bounds a line that is read; those that are written are shorter.
const maxLine = 256 << 10

// Place is a place in the log, from which a follower goes on.
type Place struct {
	file   string
	offset int64
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
}

// Newest are the newest entries that somebody wants, at most so many.
func (l *Log) Newest(ctx context.Context, q Query, most int) (Found, error) {
	names, err := list(l.Dir)
	if err != nil {
		return Found{}, err
	}
	var found Found
	for i := len(names) - 1; i >= 0; i-- {
		if i+1 < len(names) {
			// All lines of a file are older than the next one.
			if ended, _ := begin(names[i+1]); ended.Before(q.Since) { // it is in the list
				break
			}
		}
		if len(found.Entries) >= most {
			found.More = true
			break
		}
		var here []Entry
		room := most - len(found.Entries)
		end, torn, err := l.scan(ctx, Place{file: names[i]}, i == len(names)-1, func(e Entry) error {
			if !q.Wants(e) {
				return nil
			}
			here = append(here, e)
			if len(here) >= 2*room+1 {
				here, found.More = append(here[:0], here[len(here)-room:]...), true
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was too old meanwhile
			return Found{}, err
		}
		if i == len(names)-1 {
			found.End = end
		}
		if len(here) > room {
			here, found.More = here[len(here)-room:], true
		}
		found.Torn += torn
		found.Entries = append(here, found.Entries...)
	}
	return found, nil
}

// From reads on from a place, and hands over each entry that somebody wants. It ends at the end of the log,
// or with the error of yield.
func (l *Log) From(ctx context.Context, p Place, q Query, yield func(Entry) error) (Place, error) {
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
		end, _, err := l.scan(ctx, p, len(names) == 1, func(e Entry) error {
			if !q.Wants(e) {
				return nil
			}
			return yield(e)
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
func (l *Log) scan(ctx context.Context, p Place, newest bool, yield func(Entry) error) (end Place, torn int, err error) {
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
		p.offset += int64(len(text))
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var e Entry
		if json.Unmarshal(text, &e) != nil || e.ID == "" {
			torn++
			continue
		}
		if err := yield(e); err != nil {
			return p, torn, err
		}
	}
}

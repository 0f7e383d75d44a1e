// The other end of GET /v1/output: a reader that connects again where it was.

package outputstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// deaf is how long nothing may be heard: an idle peer sends an empty line now and then.
	deaf = 3 * silence
	// maxLine bounds one record on the wire, in bytes.
	maxLine = 64 << 10
	// Pauses before connecting again.
	againMin = 500 * time.Millisecond
	againMax = 10 * time.Second
)

// Query is the place as parameters of GET /v1/output.
func (p Place) Query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"source": p.Source, "id": p.ID, "instruction": p.Instruction} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if p.Attempt >= 0 {
		q.Set("attempt", strconv.Itoa(p.Attempt))
	}
	if p.Offset > 0 {
		q.Set("offset", strconv.FormatInt(p.Offset, 10))
	}
	for key, set := range map[string]bool{"only": p.Only, "follow": p.Follow, "periodic": p.Periodic} {
		if set {
			q.Set(key, "1")
		}
	}
	return q
}

// after is the place behind a record.
func (p Place) after(r Record) Place {
	p.Source, p.ID, p.Instruction, p.Attempt = r.Source, r.ID, strconv.Itoa(r.Instruction), r.Attempt
	p.Offset = r.Offset + int64(len(r.Data)) + r.Bytes
	return p
}

// Open asks for output at a place. An error of it ends Follow when nothing was read yet.
type Open func(ctx context.Context, place url.Values) (io.ReadCloser, error)

// Follow hands each record from the place on to each, without gap or repetition also when
// the connection is lost; lost is called then, and may be nil. It returns when there is
// nothing more to send, or with the context's error.
func Follow(ctx context.Context, place Place, open Open, each func(Record), lost func(error)) error {
	f := &follower{place: place, open: open, each: each}
	pause := backoff.Backoff{Min: againMin, Max: againMax, Floor: 0.5}
	for {
		err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (!place.Follow || place.Only && f.ended):
			return nil
		case err != nil && (!place.Follow || !f.connected):
			return err
		}
		if err == nil {
			err = errors.New("the connection was closed")
		}
		if lost != nil {
			lost(err)
		}
		if f.heard {
			pause.Reset()
		}
		f.heard = false
		if err := backoff.Wait(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

type follower struct {
	place     Place
	open      Open
	each      func(Record)
	connected bool // ever
	heard     bool // since the last loss
	ended     bool // the newest try
	last      Key
	reported  bool // that the newest try began
	runs      []*heardRun
}

// read reads one connection to its end.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := f.open(ctx, f.place.Query())
	if err != nil {
		return err
	}
	defer body.Close()
	f.connected = true
	alarm := time.AfterFunc(deaf, cancel)
	defer alarm.Stop()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		f.heard = true
		alarm.Reset(deaf)
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read a record of output: %w", err)
		}
		if r.Kind == Lost {
			return errors.New(r.Text)
		}
		f.take(r)
	}
	return lines.Err()
}

// take hands a record on. What has no position of its own comes again after a loss.
func (f *follower) take(r Record) {
	if r.Periodic() {
		if r, news := f.ofRun(r); news {
			f.each(r)
		}
		return
	}
	again := f.reported && f.last == r.Key && (r.Kind == Began || r.Kind == Ended && f.ended)
	f.place, f.last, f.reported = f.place.after(r), r.Key, true
	if !again {
		f.ended = r.Kind == Ended
		f.each(r)
	}
}

// heardRun is how far a run of a periodic instruction was heard. The place does not have
// that, for runs go on beside the tries that it is about, so after a loss they are sent again.
type heardRun struct {
	key          Key
	next         int64
	began, ended bool
}

// maxHeard is how many runs are remembered: more than an agent keeps.
const maxHeard = 4 * maxRuns

// ofRun is what is news of a record.
func (f *follower) ofRun(r Record) (rest Record, news bool) {
	i := slices.IndexFunc(f.runs, func(h *heardRun) bool { return h.key == r.Key })
	if i < 0 {
		f.runs = append(f.runs[max(len(f.runs)-maxHeard+1, 0):], &heardRun{key: r.Key})
		i = len(f.runs) - 1
	}
	h := f.runs[i]
	switch r.Kind {
	case Began:
		news, h.began = !h.began, true
	case Ended:
		news, h.ended = !h.ended, true
	case Output:
		known := min(max(h.next-r.Offset, 0), int64(len(r.Data)))
		r.Offset, r.Data = r.Offset+known, r.Data[known:]
		news = len(r.Data) > 0
	case Gone:
		known := min(max(h.next-r.Offset, 0), r.Bytes)
		r.Offset, r.Bytes = r.Offset+known, r.Bytes-known
		news = r.Bytes > 0
	}
	h.next = max(h.next, r.Offset+int64(len(r.Data))+r.Bytes)
	return r, news
}

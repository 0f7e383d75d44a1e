// Readers: each is at a place in the feed and asks for what comes next.

package outputstream

import (
	"context"
	"io"
	"slices"
	"strconv"
)

// Reader reads on from a place. It is for one goroutine.
type Reader struct {
	f     *Feed
	place Place
	cursor
	runs []*cursor // of periodic instructions, the end of which was not sent
	seen int64     // number of the newest of them
}

// cursor is how far a track was sent.
type cursor struct {
	at     *track // nil before the first
	offset int64
	steps  int // lines of progress that were sent
	began  bool
	over   bool // the end of at was sent
}

// Read makes a reader.
func (f *Feed) Read(p Place) *Reader { return &Reader{f: f, place: p} }

// Next is the next record, io.EOF when there is none any more, or the context's error.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		r.f.mu.Lock()
		record, ok := r.next()
		if ok || !r.waits() {
			r.f.mu.Unlock()
			if !ok {
				return Record{}, io.EOF
			}
			return record, nil
		}
		if r.f.changed == nil {
			r.f.changed = make(chan struct{})
		}
		changed := r.f.changed
		r.f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Record{}, ctx.Err()
		}
	}
}

// waits says whether more can come.
func (r *Reader) waits() bool {
	switch {
	case r.place.Follow && len(r.runs) > 0:
		return true
	case !r.place.Follow:
		return false
	case !r.place.Only:
		return true
	case r.at != nil:
		return !r.over
	}
	// A place that is over does not come back once its source is at something else.
	return !r.place.whole() || !slices.ContainsFunc(r.f.tracks, func(t *track) bool { return t.key.Source == r.place.Source })
}

// next is what can be sent now; the feed is locked.
func (r *Reader) next() (Record, bool) {
	if record, ok := r.nextTry(); ok || !r.place.Periodic {
		return record, ok
	}
	return r.nextOfRuns()
}

// nextOfRuns is what can be sent of periodic instructions.
func (r *Reader) nextOfRuns() (Record, bool) {
	for _, t := range r.f.runs {
		if t.number > r.seen {
			r.seen = t.number
			if !r.place.Only || r.place.Instruction == t.name {
				r.runs = append(r.runs, &cursor{at: t})
			}
		}
	}
	for _, c := range r.runs {
		if record, ok := c.ofTrack(); ok {
			return record, true
		}
	}
	r.runs = slices.DeleteFunc(r.runs, func(c *cursor) bool { return c.over || r.f.isGone(c.at) })
	return Record{}, false
}

// isGone says that a run made room for another before it ended; there will be no more of it.
func (f *Feed) isGone(t *track) bool { return !slices.Contains(f.runs, t) }

// nextTry is what can be sent of one-time instructions.
func (r *Reader) nextTry() (Record, bool) {
	if r.at == nil && !r.enter(r.first()) {
		return Record{}, false
	}
	for {
		if record, ok := r.ofTrack(); ok {
			return record, true
		}
		if !r.enter(r.later()) {
			return Record{}, false
		}
	}
}

// ofTrack is what the track has to send.
func (r *cursor) ofTrack() (Record, bool) {
	t := r.at
	record := Record{Key: t.key, Name: t.name, Offset: r.offset}
	switch {
	case !r.began:
		r.began = true
		record.Kind, record.Plan, record.Time = Began, t.checksum, t.began
		return record, true
	case r.steps < t.steps:
		r.steps = t.steps
		record.Kind, record.Text = Progress, t.progress
		return record, true
	case r.offset < t.end:
		return r.output(record), true
	case t.ended != nil && !r.over:
		r.over = true
		record.Kind, record.Time, record.Text, record.ExitCode = Ended, t.ended.time, t.ended.reason, t.ended.exitCode
		return record, true
	}
	return Record{}, false
}

// output is the next piece, or how much there is no more before it.
func (r *cursor) output(record Record) Record {
	t := r.at
	i := slices.IndexFunc(t.pieces, func(p piece) bool { return p.offset+int64(len(p.data)) > r.offset })
	next := t.end
	if i >= 0 {
		next = t.pieces[i].offset
	}
	if next > r.offset {
		record.Kind, record.Bytes = Gone, next-r.offset
		r.offset = next
		return record
	}
	p := t.pieces[i]
	data := p.data[r.offset-p.offset:]
	record.Kind, record.Stream, record.Data = Output, p.stream.String(), slices.Clone(data)
	r.offset += int64(len(data))
	return record
}

// enter goes to a track, to the reader's own place when that is in it.
func (r *Reader) enter(t *track) bool {
	if t == nil {
		return false
	}
	mine := r.place.fits(t) && (r.at == nil || r.place.whole())
	r.cursor = cursor{at: t}
	if mine && r.place.Offset > 0 {
		r.offset, r.began = r.place.Offset, true
	}
	return true
}

// first is the track to begin with; nil when it has not begun.
func (r *Reader) first() *track {
	tracks, p := r.f.tracks, r.place
	for i := len(tracks) - 1; i >= 0; i-- {
		if !p.fits(tracks[i]) {
			continue
		}
		for !p.Only && p.Instruction == "" && i > 0 && p.fits(tracks[i-1]) && sameDelivery(tracks[i-1], tracks[i]) {
			i--
		}
		return tracks[i]
	}
	if len(tracks) > 0 && p.whole() && !p.Only {
		return tracks[0]
	}
	return nil
}

// later is the track after the present one; nil when there is none.
func (r *Reader) later() *track {
	for _, t := range r.f.tracks {
		again := sameDelivery(t, r.at) && t.key.Instruction == r.at.key.Instruction
		if t.number > r.at.number && (!r.place.Only || again) {
			return t
		}
	}
	return nil
}

// fits says whether a track is one of those that the place can mean.
func (p Place) fits(t *track) bool {
	index := strconv.Itoa(t.key.Instruction)
	return (p.Source == "" || p.Source == t.key.Source) &&
		(p.ID == "" || p.ID == t.key.ID) &&
		(p.Attempt < 0 || p.Attempt == t.key.Attempt) &&
		(p.Instruction == "" || p.Instruction == t.name || p.Instruction == index || p.Instruction == "instructions["+index+"]")
}

// whole says whether the place is one certain try of one certain instruction.
func (p Place) whole() bool {
	return p.Source != "" && p.ID != "" && p.Instruction != "" && p.Attempt >= 0
}

func sameDelivery(a, b *track) bool {
	return a.key.Source == b.key.Source && a.key.ID == b.key.ID
}

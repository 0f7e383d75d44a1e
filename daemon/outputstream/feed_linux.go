// The feed: what is kept, and how it comes in.

package outputstream

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans/apply"
)

// Feed is what an engine reports, for readers.
type Feed struct {
	mu      sync.Mutex
	tracks  []*track // tries of one-time instructions, in the order in which they began
	runs    []*track // of periodic instructions, likewise
	begun   int64
	changed chan struct{} // closed at the next change; nil while no reader waits
}

// track is what is kept of one try or run.
type track struct {
	key      Key
	limit    int   // of cost
	number   int64 // counts all tracks of the feed
	name     string
	checksum string
	began    time.Time
	pieces   []piece
	cost     int
	end      int64 // position after the newest byte
	steps    int   // counts the lines of progress
	progress string
	ended    *ending
}

type ending struct {
	time     time.Time
	reason   string
	exitCode int
}

type piece struct {
	offset int64
	stream output.Stream
	data   []byte
}

// New makes an empty feed.
func New() *Feed { return &Feed{} }

// Observe takes an event of an engine; others than those of instructions are ignored.
func (f *Feed) Observe(e apply.Event) {
	switch e.Kind {
	case apply.InstructionBegan, apply.InstructionAttached, apply.InstructionOutput, apply.Progress, apply.InstructionEnded:
		if e.Instruction < 0 {
			return
		}
	case apply.PeriodicBegan, apply.PeriodicOutput, apply.PeriodicEnded:
	default:
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.track(e)
	switch e.Kind {
	case apply.InstructionOutput, apply.PeriodicOutput:
		t.add(e.Offset, e.Stream, e.Data)
	case apply.Progress:
		t.steps, t.progress = t.steps+1, e.Text
	case apply.InstructionEnded, apply.PeriodicEnded:
		t.ended = &ending{e.Time, e.Text, e.ExitCode}
	}
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// track finds the try or run that an event is about, or begins it. An older one makes room.
func (f *Feed) track(e apply.Event) *track {
	key := Key{e.Source, e.ID, e.Instruction, e.Attempt}
	all := &f.tracks
	if key.Periodic() {
		all = &f.runs
	}
	for i := len(*all) - 1; i >= 0; i-- {
		if (*all)[i].key == key {
			return (*all)[i]
		}
	}
	f.begun++
	t := &track{key: key, limit: maxTrack, number: f.begun, name: e.Name, checksum: e.Checksum, began: e.Time}
	if key.Periodic() {
		t.limit = maxRun
		f.runs = roomFor(f.runs, t)
	} else if len(f.tracks) == maxTracks {
		f.tracks = append(f.tracks[:0:0], f.tracks[1:]...)
	}
	*all = append(*all, t)
	return t
}

// roomFor leaves out the run before of the same instruction, so that one that comes often
// does not take the place of those that come seldom; if there is none, the oldest one.
func roomFor(runs []*track, t *track) []*track {
	out := slices.IndexFunc(runs, func(old *track) bool {
		return old.key.Source == t.key.Source && old.name == t.name
	})
	if out < 0 && len(runs) == maxRuns {
		out = 0
	}
	if out < 0 {
		return runs
	}
	return append(append(runs[:0:0], runs[:out]...), runs[out+1:]...)
}

// add keeps what it does not have yet. The oldest bytes make room.
func (t *track) add(offset int64, stream output.Stream, data []byte) {
	if known := t.end - offset; known > 0 {
		if known >= int64(len(data)) {
			return // reported again after a restart
		}
		offset, data = t.end, data[known:]
	}
	for len(data) > 0 {
		n := t.extend(offset, stream, data)
		offset, data = offset+int64(n), data[n:]
	}
	t.end = offset
	for t.cost > t.limit {
		t.cost -= cap(t.pieces[0].data) + pieceCost
		t.pieces[0] = piece{}
		t.pieces = t.pieces[1:]
	}
}

// extend puts the beginning of data to the newest piece or into one of its own, and says how much that was.
func (t *track) extend(offset int64, stream output.Stream, data []byte) int {
	if last := len(t.pieces) - 1; last >= 0 {
		p := &t.pieces[last]
		if room := maxPiece - len(p.data); room > 0 && p.stream == stream && p.offset+int64(len(p.data)) == offset {
			n, before := min(room, len(data)), cap(p.data)
			p.data = append(p.data, data[:n]...)
			t.cost += cap(p.data) - before
			return n
		}
	}
	n := min(maxPiece, len(data))
	p := piece{offset, stream, append([]byte(nil), data[:n]...)}
	t.pieces = append(t.pieces, p)
	t.cost += cap(p.data) + pieceCost
	return n
}

// Tail is the end of what a try printed that is kept, at most limit bytes.
func (f *Feed) Tail(key Key, limit int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tracks {
		if t.key != key {
			continue
		}
		var tail []byte
		for i := len(t.pieces) - 1; i >= 0 && len(tail) < limit; i-- {
			tail = append(append([]byte(nil), t.pieces[i].data...), tail...)
		}
		return tail[max(len(tail)-limit, 0):]
	}
	return nil
}

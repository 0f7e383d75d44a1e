// Package output is what a command prints, on disk: a row of segment files "output.NNNNNN". Each begins
// with a magic word and the number of bytes printed before it (big endian, 8 bytes);
// then come records of one byte stream, four bytes length (big endian) and the bytes.
//
// The first segment is the beginning of the output and stays; the others are a ring of
// which only the newest stay. So the end is kept without anything ever being rewritten,
// a reader can follow along, and what it misses shows as a gap between the numbers.
package output

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"github.com/drover-project/drover/plans/durable"
)

// Stream is where a piece of output was written to.
type Stream byte

// The two streams of a command.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

const (
	segmentMagic  = "drvout1\n"
	segmentHeader = len(segmentMagic) + 8
	recordHeader  = 5
	MaxRecord     = 32 << 10
	// segmentsKept of a quarter of the limit each hold the end of the output: half the limit
	// and the one that is being written.
	segmentsKept = 3
	// minLimit keeps segments from becoming smaller than the directory entries they need.
	minLimit = 4 << 10
)

// Recorder writes segments. What cannot be written, because the disk is full, is counted
// and lost: the command must not be held up.
type Recorder struct {
	mu    sync.Mutex
	dir   string
	limit int
	seq   int      // of the next segment
	file  *os.File // nil before the first record and after a failed write
	good  int64    // length of file up to the last whole record
	room  int      // bytes of output that still go into file
	total int64    // bytes printed
	done  bool
}

// NewRecorder records into dir, which exists, at most limit bytes.
func NewRecorder(dir string, limit int) *Recorder {
	return &Recorder{dir: dir, limit: max(limit, minLimit)}
}

// Record writes b as one or more records.
func (r *Recorder) Record(s Stream, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	for len(b) > 0 {
		if r.file == nil || r.room == 0 {
			r.rotate()
		}
		n := min(len(b), MaxRecord)
		if r.file != nil {
			n = min(n, r.room)
			r.write(s, b[:n])
		}
		r.total += int64(n)
		b = b[n:]
	}
}

func (r *Recorder) write(s Stream, b []byte) {
	frame := make([]byte, recordHeader+len(b))
	frame[0] = byte(s)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(b))) // #nosec G115 -- a frame is shorter than a segment
	copy(frame[recordHeader:], b)
	if _, err := r.file.Write(frame); err != nil {
		// Half a record must not stay before the next segment. Nothing more can be done if that
		// fails too; a reader stops at it.
		_ = r.file.Truncate(r.good)
		r.closeSegment()
		return
	}
	r.good += int64(len(frame))
	r.room -= len(b)
}

// rotate begins a new segment and removes the oldest of the ring. After an error there is
// no segment, and the next record tries again.
func (r *Recorder) rotate() {
	r.closeSegment()
	f, err := os.OpenFile(segmentPath(r.dir, r.seq), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	header := binary.BigEndian.AppendUint64([]byte(segmentMagic), uint64(r.total)) // #nosec G115 -- a sum of lengths
	if _, err := f.Write(header); err != nil {
		f.Close()
		return
	}
	r.file, r.good, r.room = f, int64(segmentHeader), r.limit/4
	if r.seq == 0 {
		r.room = r.limit / 2
	}
	if old := r.seq - segmentsKept; old > 0 {
		os.Remove(segmentPath(r.dir, old))
	}
	r.seq++
}

func (r *Recorder) closeSegment() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// Finish drops what comes later. It returns the number of bytes printed.
func (r *Recorder) Finish() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	if r.file != nil {
		durable.Begin(r.file)
	}
	return r.total
}

// Sync makes the output durable, after Finish.
func (r *Recorder) Sync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		_ = r.file.Sync() // a lost output must not keep the result from being written
	}
	r.closeSegment()
}

func segmentPath(dir string, seq int) string {
	return filepath.Join(dir, fmt.Sprintf("output.%06d", seq))
}

// Chunk is a piece of output.
type Chunk struct {
	Stream Stream
	Data   []byte // valid during the call only
	// Skipped is how many bytes before this chunk were not kept.
	Skipped int64
}

// Follower reads the output of a command from the beginning, while or after it runs.
type Follower struct {
	dir  string
	seq  int
	off  int64 // in the segment
	read int64 // bytes of output read or skipped
}

// NewFollower reads the output in a command's directory.
func NewFollower(dir string) *Follower { return &Follower{dir: dir} }

// Next hands on what was written since the last call, of a command that prints without
// end only a part, so that the caller can see to other things. The errors are those of reading the segments.
func (f *Follower) Next(each func(Chunk)) error {
	for range segmentsKept + 2 {
		// A writer is done with a segment before it begins the next, so a reader that sees the next
		// first and then reads this one to its end misses nothing.
		next, newer, err := f.newer()
		if err != nil {
			return err
		}
		if err := f.segment(each); err != nil {
			return err
		}
		if !newer {
			return nil
		}
		f.seq, f.off = next, 0
	}
	return nil
}

// newer is the number of the oldest segment after this one.
func (f *Follower) newer() (seq int, ok bool, err error) {
	names, err := filepath.Glob(filepath.Join(f.dir, "output.[0-9][0-9][0-9][0-9][0-9][0-9]*"))
	if err != nil {
		return 0, false, err
	}
	var after []int
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name), "output.%d", &n); err == nil && n > f.seq {
			after = append(after, n)
		}
	}
	if len(after) == 0 {
		return 0, false, nil
	}
	sort.Ints(after)
	return after[0], true, nil
}

// segment reads on in the current segment as far as it is complete.
func (f *Follower) segment(each func(Chunk)) error {
	file, err := os.Open(segmentPath(f.dir, f.seq))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not begun yet, or gone from the ring
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var skipped int64
	if f.off == 0 {
		before, ok, err := readHeader(file)
		if err != nil || !ok {
			return err
		}
		skipped = max(before-f.read, 0)
		f.read += skipped
		f.off = int64(segmentHeader)
	}
	for {
		s, data, err := readRecord(file, f.off)
		if err != nil || data == nil {
			if skipped > 0 && err == nil {
				each(Chunk{Stream: Stdout, Skipped: skipped})
			}
			return err
		}
		each(Chunk{Stream: s, Data: data, Skipped: skipped})
		skipped = 0
		f.off += int64(recordHeader + len(data))
		f.read += int64(len(data))
	}
}

func readHeader(file *os.File) (before int64, ok bool, err error) {
	header := make([]byte, segmentHeader)
	if _, err := file.ReadAt(header, 0); errors.Is(err, io.EOF) {
		return 0, false, nil
	} else if err != nil {
		return 0, false, err
	}
	if !bytes.HasPrefix(header, []byte(segmentMagic)) {
		return 0, false, fmt.Errorf("%s is not an output segment", file.Name())
	}
	return int64(binary.BigEndian.Uint64(header[len(segmentMagic):])), true, nil // #nosec G115 -- a file of our own
}

// readRecord reads the record at off; data is nil when it is not complete yet.
func readRecord(file *os.File, off int64) (Stream, []byte, error) {
	var header [recordHeader]byte
	if _, err := file.ReadAt(header[:], off); errors.Is(err, io.EOF) {
		return 0, nil, nil
	} else if err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	s := Stream(header[0])
	if n == 0 || n > MaxRecord || (s != Stdout && s != Stderr) {
		return 0, nil, fmt.Errorf("%s is damaged at byte %d", file.Name(), off)
	}
	data := make([]byte, n)
	if _, err := file.ReadAt(data, off+recordHeader); errors.Is(err, io.EOF) {
		return 0, nil, nil
	} else if err != nil {
		return 0, nil, err
	}
	return s, data, nil
}

// Read is the output kept of a command that ended and printed so many bytes, both streams in the order they
// came, at most limit bytes and a line that says how many were cut. With an error of reading, it is what could be read.
func Read(dir string, limit int, written int64) ([]byte, error) {
	kept := NewBounded(limit)
	follower := NewFollower(dir)
	err := follower.Next(func(c Chunk) {
		kept.Skip(c.Skipped)
		kept.Write(c.Data)
	})
	if missing := written - follower.read; missing > 0 {
		kept.Skip(missing)
	}
	return kept.Bytes(), err
}

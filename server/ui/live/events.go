// Server-sent events. One is compressed once and then sent to any number of clients: each stream is one gzip member that does
// not end, and each event a part of it that refers to nothing before.

package live

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// Event is one event as it is sent, and the same in a stream that is compressed.
type Event struct{ Plain, Packed []byte }

// Head is what a compressed stream begins with: the header of gzip, without name and time.
func Head() []byte { return []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255} }

// Short is an event of few bytes, which is not made smaller. Its text may have lines.
func Short(name, text string) Event {
	plain := written(name, "", []byte(text))
	return Event{plain, stored(plain)}
}

// Long is an event of many bytes. Clients remember its id.
func Long(name, id string, text []byte) Event {
	plain := written(name, id, text)
	z, ok := packers.Get().(*flate.Writer)
	if !ok {
		z, _ = flate.NewWriter(nil, flate.BestSpeed) // the level is valid
	}
	defer packers.Put(z)
	var out bytes.Buffer
	z.Reset(&out)
	_, _ = z.Write(plain) // a bytes.Buffer takes everything
	_ = z.Flush()         // and not Close: others follow
	return Event{plain, out.Bytes()}
}

var packers sync.Pool // of *flate.Writer: each holds some 600 KiB

// written is an event as the format has it. A line may end by a carriage return there, so none is left: what is between
// two of them would be a field of the event.
func written(name, id string, text []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(text) + len(text)/16)
	out.WriteString("event: " + line(name) + "\n")
	if id != "" {
		out.WriteString("id: " + line(id) + "\n")
	}
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	for one := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		out.WriteString("data: ")
		out.Write(one)
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func line(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }

// mostStored is how much a block holds that is not compressed.
const mostStored = 1<<16 - 1

// stored is a text in blocks that are not compressed, and an empty one, at which clients look at what they have.
func stored(text []byte) []byte {
	var out []byte
	for part := range slices.Chunk(text, mostStored) {
		size := uint16(len(part)) // #nosec G115 -- at most mostStored
		out = append(out, 0)
		out = binary.LittleEndian.AppendUint16(out, size)
		out = binary.LittleEndian.AppendUint16(out, ^size)
		out = append(out, part...)
	}
	return append(out, 0, 0, 0, 0xff, 0xff)
}

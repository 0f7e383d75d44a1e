// What goes over the wire: kinds of frames, their bounds, and how one is put together.

package mux

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	headerSize = 12
	// firstStream is the number of the first connection, as in the original's protocol, so that
	// people who read logs of both need not care.
	firstStream = 2
	// maxData is how much one frame of data carries, in bytes.
	maxData = 64 << 10
	// roomyData is how much makes a frame of 64 KiB with all headers, which are four records of
	// TLS; maxData would begin a fifth.
	roomyData = 64<<10 - 8 - headerSize
	// headRoom is what all headers together take at most: 10 of the websocket, 4 for its mask.
	headRoom   = 14 + headerSize
	maxTarget  = 266
	maxReason  = 256
	smallFrame = 4 << 10
	// maxCredit bounds what a peer may grant in total, in bytes.
	maxCredit = 1 << 30
)

type kind byte

const (
	kindOpen kind = iota + 1
	kindOpened
	kindData
	kindCredit
	kindFinish
	kindReset
)

// String names the kind in errors and logs.
func (k kind) String() string {
	names := [...]string{"", "open", "opened", "data", "credit", "finish", "reset"}
	if k < 1 || int(k) >= len(names) {
		return fmt.Sprintf("unknown kind %d", byte(k))
	}
	return names[k]
}

// limit is how large a body may be.
func (k kind) limit() int {
	switch k {
	case kindOpen:
		return maxTarget
	case kindData:
		return maxData
	case kindCredit:
		return 4
	case kindReset:
		return 1 + maxReason
	case kindOpened, kindFinish:
		return 0
	}
	return smallFrame // skipped
}

type header struct {
	kind   kind
	size   int
	stream uint64
}

// Code says why a connection was reset.
type Code byte

// The codes of a reset.
const (
	Closed      Code = iota // an ordinary end
	Refused                 // the host's policy does not allow the target
	Unreachable             // the host could not connect to the target
	Broken                  // the target ended the connection
)

// ResetError says that the other end has ended a connection.
type ResetError struct {
	Code Code
	Text string // why, in the other end's words; they come from outside
}

// Error is the reason of the end that reset the stream.
func (e *ResetError) Error() string {
	if e.Text == "" {
		return "the other end has closed the connection"
	}
	return e.Text
}

// ViolationError says what a peer did that the protocol does not allow.
type ViolationError struct{ Text string }

// Error says which rule the peer broke.
func (e *ViolationError) Error() string { return e.Text }

func violationf(format string, args ...any) error {
	return &ViolationError{fmt.Sprintf(format, args...)}
}

// FarewellError is the peer's good-bye.
type FarewellError struct {
	Code int // of RFC 6455, section 7.4; 1005 is none
	Text string
}

// Error has the code of the close frame and its reason.
func (e *FarewellError) Error() string { return fmt.Sprintf("closed with %d: %s", e.Code, e.Text) }

func farewell(payload []byte) error {
	if len(payload) < 2 {
		return &FarewellError{Code: 1005}
	}
	return &FarewellError{Code: int(binary.BigEndian.Uint16(payload)), Text: string(payload[2:])}
}

// newMask is a key for one frame. A mask has to be unpredictable for who chose the
// payload (RFC 6455, section 5.3).
func newMask() (key [4]byte) {
	rand.Read(key[:]) // never fails
	return key
}

// appendMessage begins a websocket message, whose size is without headers.
func appendMessage(b []byte, op byte, size int, mask *[4]byte) []byte {
	masked := byte(0)
	if mask != nil {
		masked = 0x80
	}
	b = append(b, 0x80|op)
	switch {
	case size < 126:
		b = append(b, masked|byte(size)) // #nosec G115 -- at most 125
	case size < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(size))
	}
	if mask != nil {
		b = append(b, mask[:]...)
	}
	return b
}

func appendHeader(b []byte, h header) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.kind)<<24|uint32(h.size)) // #nosec G115 -- at most maxPayload
	return binary.BigEndian.AppendUint64(b, h.stream)
}

// appendFrame puts a whole frame into a message of its own.
func appendFrame(b []byte, client bool, h header, body []byte) []byte {
	if !client {
		b = appendMessage(b, opBinary, headerSize+h.size, nil)
		return append(appendHeader(b, h), body...)
	}
	key := newMask()
	b = appendMessage(b, opBinary, headerSize+h.size, &key)
	begin := len(b)
	b = append(appendHeader(b, h), body...)
	xor(b[begin:], key, 0)
	return b
}

// appendControl puts a ping or pong together.
func appendControl(b []byte, client bool, op byte, payload []byte) []byte {
	if !client {
		return append(appendMessage(b, op, len(payload), nil), payload...)
	}
	key := newMask()
	b = appendMessage(b, op, len(payload), &key)
	begin := len(b)
	b = append(b, payload...)
	xor(b[begin:], key, 0)
	return b
}

// frame puts the headers in front of a buffer's data and returns the whole.
func (c *chunk) frame(client bool, stream uint64) []byte {
	size := c.w - c.r
	h := header{kind: kindData, size: size, stream: stream}
	var head [headRoom]byte
	if !client {
		all := appendHeader(appendMessage(head[:0], opBinary, headerSize+size, nil), h)
		begin := c.r - len(all)
		copy(c.buf[begin:], all)
		return c.buf[begin:c.w]
	}
	key := newMask()
	all := appendMessage(head[:0], opBinary, headerSize+size, &key)
	plain := len(all)
	all = appendHeader(all, h)
	begin := c.r - len(all)
	copy(c.buf[begin:], all)
	xor(c.buf[begin+plain:c.w], key, 0)
	return c.buf[begin:c.w]
}

// xor masks or unmasks in place, beginning at a position of the key.
func xor(b []byte, key [4]byte, at int) {
	var four [4]byte
	for i := range four {
		four[i] = key[(at+i)%4]
	}
	k := uint64(binary.LittleEndian.Uint32(four[:]))
	k |= k << 32
	for len(b) >= 32 {
		part := b[:32:32]
		binary.LittleEndian.PutUint64(part, binary.LittleEndian.Uint64(part)^k)
		binary.LittleEndian.PutUint64(part[8:], binary.LittleEndian.Uint64(part[8:])^k)
		binary.LittleEndian.PutUint64(part[16:], binary.LittleEndian.Uint64(part[16:])^k)
		binary.LittleEndian.PutUint64(part[24:], binary.LittleEndian.Uint64(part[24:])^k)
		b = b[32:]
	}
	for i := range b {
		b[i] ^= four[i%4]
	}
}

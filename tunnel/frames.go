// What comes over a websocket, seen from below the library: just enough of frames (RFC
// 6455, section 5.2) and of the tunnel's messages to bound them and to say what a peer
// did wrong. The library itself believes every length and type it reads.

package tunnel

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	// maxMessage bounds one message, in bytes; peers send 32 KiB at a time, and lists of
	// 8 bytes for each connection.
	maxMessage = 4 << 20
	// maxHead is the longest header of a message, in bytes: four varints as the peers write them.
	maxHead = 24
	// More than maxControls pings, pongs and closes within controlWindow are a flood; peers
	// ping every 5 s.
	maxControls   = 200
	controlWindow = 10 * time.Second
	// maxCloseReason is the payload of a control frame, in bytes.
	maxCloseReason = 125
)

// Opcodes of frames.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
)

// messageType is the third number of a message of the remotedialer protocol.
type messageType int64

const (
	typeData messageType = iota + 1
	typeConnect
	typeError
	typeAddClient
	typeRemoveClient
	typePause
	typeResume
	typeSync
)

// String names the type in errors and logs.
func (t messageType) String() string {
	names := [...]string{"", "data", "connect", "error", "add client", "remove client", "pause", "resume", "sync connections"}
	if t < 1 || int(t) >= len(names) {
		return fmt.Sprintf("unknown type %d", int64(t))
	}
	return names[t]
}

// part is a message or a further frame of one, without its payload.
type part struct {
	messageType
	conn    int64
	payload int64 // bytes
	first   bool  // not a further frame
}

// violation is what a peer did that ends its websocket.
type violation struct{ text string }

// Error says which rule the peer broke.
func (v *violation) Error() string { return v.text }

func violationf(format string, args ...any) error { return &violation{fmt.Sprintf(format, args...)} }

// frames is fed the bytes of one direction of a websocket. It belongs to one goroutine.
type frames struct {
	see func(part) error // called with each part; its error ends the websocket. May be nil
	now func() time.Time

	header [14]byte // of the frame that comes
	have   int
	left   int64 // payload of the current frame still to come
	mask   [4]byte
	at     int // position in the mask
	opcode byte
	fin    bool

	inMessage bool
	size      int64 // of the current message, all frames so far
	head      [maxHead]byte
	headHave  int
	uncounted int64 // payload that came before the head was whole
	current   part
	known     bool // the head of the current message was read

	controls    int
	controlFrom time.Time
	reason      []byte // payload of a close frame
}

// feed looks at the next bytes; an error says what the peer did wrong.
func (f *frames) feed(p []byte) error {
	for len(p) > 0 {
		if f.left == 0 {
			n, whole := f.takeHeader(p)
			p = p[n:]
			if !whole {
				return nil
			}
			if err := f.begin(); err != nil {
				return err
			}
		}
		n := int(min(f.left, int64(len(p))))
		f.takePayload(p[:n])
		p = p[n:]
		if f.left -= int64(n); f.left == 0 || f.headHave == maxHead {
			if err := f.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeHeader collects a frame's header and says how many bytes belong to it.
func (f *frames) takeHeader(p []byte) (n int, whole bool) {
	for f.have < f.headerSize() {
		if n == len(p) {
			return n, false
		}
		f.header[f.have] = p[n]
		f.have++
		n++
	}
	return n, true
}

// headerSize is how long the header is, as far as its beginning shows.
func (f *frames) headerSize() int {
	if f.have < 2 {
		return 2
	}
	size := 2
	switch f.header[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.header[1]&0x80 != 0 {
		size += 4
	}
	return size
}

// begin is called with a whole header.
func (f *frames) begin() error {
	size := f.headerSize()
	f.fin, f.opcode = f.header[0]&0x80 != 0, f.header[0]&0x0f
	length := uint64(f.header[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 127:
		length = binary.BigEndian.Uint64(f.header[2:])
	}
	f.mask, f.at = [4]byte{}, 0
	if f.header[1]&0x80 != 0 {
		copy(f.mask[:], f.header[size-4:size])
	}
	f.have = 0
	if f.opcode >= opClose {
		return f.beginControl(length)
	}
	return f.beginData(length)
}

func (f *frames) beginControl(length uint64) error {
	if length > maxCloseReason {
		return violationf("it sent a control frame of %d bytes, more than %d", length, maxCloseReason)
	}
	f.left = int64(length)
	f.reason = f.reason[:0]
	now := f.now()
	if now.Sub(f.controlFrom) > controlWindow {
		f.controls, f.controlFrom = 0, now
	}
	f.controls++
	if f.controls > maxControls {
		return violationf("it sent more than %d pings within %s", maxControls, controlWindow)
	}
	return nil
}

func (f *frames) beginData(length uint64) error {
	switch f.opcode {
	case opText:
		return violationf("it sent a text message; a tunnel's messages are binary")
	case opBinary:
		f.inMessage, f.size, f.headHave, f.uncounted, f.known = true, 0, 0, 0, false
	case opContinuation:
		if !f.inMessage {
			return violationf("it went on with a message that it had not begun")
		}
	default:
		return violationf("it sent a frame of the unknown kind %#x", f.opcode)
	}
	if length > maxMessage || f.size+int64(length) > maxMessage {
		return violationf("it announced a message of %d bytes, more than %d", uint64(f.size)+length, maxMessage) // #nosec G115 -- what came so far is never negative
	}
	f.size += int64(length)
	f.left = int64(length)
	if f.known {
		return f.report(part{messageType: f.current.messageType, conn: f.current.conn, payload: int64(length)})
	}
	f.uncounted += int64(length)
	return nil
}

// takePayload keeps what is of interest: the beginning of a message, the reason of a close.
func (f *frames) takePayload(p []byte) {
	control := f.opcode >= opClose
	switch {
	case f.opcode == opClose:
		for i, b := range p {
			f.reason = append(f.reason, b^f.mask[(f.at+i)%4])
		}
	case !control && !f.known:
		for i := 0; i < len(p) && f.headHave < maxHead; i++ {
			f.head[f.headHave] = p[i] ^ f.mask[(f.at+i)%4]
			f.headHave++
		}
	}
	f.at = (f.at + len(p)) % 4
}

// advance reads the head of a message once there is enough of it, and ends messages.
func (f *frames) advance() error {
	if f.opcode >= opClose || !f.inMessage {
		return nil
	}
	ended := f.fin && f.left == 0
	if !f.known && (ended || f.headHave == maxHead) {
		head, size, ok := parseHead(f.head[:f.headHave])
		if !ok {
			return violationf("it sent a message whose header cannot be read")
		}
		f.known, f.current = true, head
		head.first, head.payload = true, f.uncounted-int64(size)
		if err := f.report(head); err != nil {
			return err
		}
	}
	if ended {
		f.inMessage = false
	}
	return nil
}

func (f *frames) report(p part) error {
	if f.see == nil {
		return nil
	}
	return f.see(p)
}

// parseHead reads id, connection, type and the obsolete deadline, which data and connect carry.
func parseHead(b []byte) (p part, size int, ok bool) {
	var numbers [4]int64
	want := 3
	for i := 0; i < want; i++ {
		v, n := binary.Varint(b[size:])
		if n <= 0 {
			return part{}, 0, false
		}
		numbers[i] = v
		size += n
		if i == 2 && (messageType(v) == typeData || messageType(v) == typeConnect) {
			want = 4
		}
	}
	return part{messageType: messageType(numbers[2]), conn: numbers[1]}, size, true
}

// farewell is what the peer said when it closed; empty when it said nothing.
func (f *frames) farewell() string {
	if len(f.reason) < 3 { // a code of two bytes comes first
		return ""
	}
	return oneLine(string(f.reason[2:]))
}

// closeFrame is a whole frame, as a server writes it, that closes a websocket with a code
// and words; what does not fit is cut.
func closeFrame(code uint16, reason string) []byte {
	if len(reason) > maxCloseReason-2 {
		reason = reason[:maxCloseReason-2]
	}
	b := []byte{0x80 | opClose, byte(2 + len(reason)), byte(code >> 8), byte(code)} // #nosec G115 -- a reason has at most 123 bytes, a code is cut into bytes
	return append(b, reason...)
}

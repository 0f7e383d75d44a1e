// What of a directory's answers comes in. The library makes an object of some hundred bytes of each element, were it of two bytes:
// answers are bounded before it sees them, within the encryption.
//
// Wire source: RFC 4511, 5.1, by which messages are BER (X.690) with definite lengths.

package ldap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/drover-project/drover/server/directories"
)

// Bounds of answers. An entry of those that are asked for here has at most four attributes, and one without attributes five elements.
const (
	maxMessage  = 64 << 10 // bytes
	maxElements = 2_000    // of a message
	maxDepth    = 10
	// maxAnswers and maxAll bound all of a connection, in bytes and elements: those of a person with very many groups.
	maxAnswers = 4 << 20
	maxAll     = 10 * directories.MaxRead
	// besides is how many messages may come with the entries of a search: references to other directories, notices, and the end.
	besides = 100
)

// boundError says which bound an answer has passed, or how it is none.
type boundError string

func (e boundError) Error() string { return string(e) }

// bounded is a connection that gives whole messages within the bounds, and nothing any more after another one.
type bounded struct {
	net.Conn
	from *bufio.Reader
	// messages are how many may come.
	messages        atomic.Int64
	bytes, elements int // that may still come
	message         []byte
	ready           []byte
	failed          atomic.Pointer[boundError]
}

func bound(c net.Conn) *bounded {
	b := &bounded{Conn: c, from: bufio.NewReader(c), bytes: maxAnswers, elements: maxAll}
	b.expect(0)
	return b
}

// expect says how many entries are asked for next.
func (b *bounded) expect(entries int) { b.messages.Store(int64(entries + besides)) }

func (b *bounded) Read(p []byte) (int, error) {
	if len(b.ready) == 0 {
		if failed := b.failed.Load(); failed != nil {
			return 0, *failed
		}
		if err := b.next(); err != nil {
			if over, ok := errors.AsType[boundError](err); ok {
				b.failed.Store(&over)
				_ = b.Close() // which the library is told by the error
			}
			return 0, err
		}
		b.ready = b.message
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next reads a message.
func (b *bounded) next() error {
	b.message = append(b.message[:0], 0, 0)
	if _, err := io.ReadFull(b.from, b.message); err != nil {
		return err
	}
	if b.message[0] != 0x30 {
		return boundError("its answer is not a message of LDAP")
	}
	if more := int(b.message[1]) - 0x80; more > 0 && more <= 4 {
		b.message = append(b.message, make([]byte, more)...)
		if _, err := io.ReadFull(b.from, b.message[2:]); err != nil {
			return err
		}
	}
	length, head, ok := size(b.message[1:])
	switch {
	case !ok:
		return boundError("its answer is not a message of LDAP")
	case length > maxMessage:
		return boundError(fmt.Sprintf("a message of its answer has %d bytes; at most %d are read", length, maxMessage))
	case b.bytes < length:
		return boundError(fmt.Sprintf("its answers have more than %d bytes", maxAnswers))
	case b.messages.Add(-1) < 0:
		return boundError("it answers with more entries than were asked for")
	}
	b.bytes -= 1 + head + length
	b.message = append(b.message, make([]byte, length)...)
	if _, err := io.ReadFull(b.from, b.message[1+head:]); err != nil {
		return err
	}
	n, err := count(b.message)
	if err != nil {
		return err
	}
	if b.elements -= n; b.elements < 0 {
		return boundError(fmt.Sprintf("its answers have more than %d elements", maxAll))
	}
	return nil
}

// size reads a length of BER and says how many bytes it is written in. An indefinite one, which LDAP does not have, is not ok.
func size(text []byte) (length, head int, ok bool) {
	if len(text) == 0 {
		return 0, 0, false
	}
	more := int(text[0]) - 0x80
	if more < 0 {
		return int(text[0]), 1, true
	}
	if more == 0 || more > 4 || len(text) <= more {
		return 0, 0, false
	}
	for _, one := range text[1 : 1+more] {
		length = length<<8 | int(one)
	}
	return length, 1 + more, true
}

// count is how many elements a message has. Its errors are of type boundError.
func count(message []byte) (n int, err error) {
	at, ends := 0, []int{len(message)} // of the elements around
	for {
		for at == ends[len(ends)-1] {
			if ends = ends[:len(ends)-1]; len(ends) == 0 {
				return n, nil
			}
		}
		end := ends[len(ends)-1]
		length, head, ok := size(message[at+1 : end])
		begin := at + 1 + head
		switch {
		case message[at]&0x1f == 0x1f || !ok || length > end-begin: // LDAP has no tags of several bytes
			return n, boundError("its answer is not a message of LDAP")
		case n == maxElements:
			return n, boundError(fmt.Sprintf("a message of its answer has more than %d elements", maxElements))
		case message[at]&0x20 == 0: // a primitive one
			at = begin + length
		case len(ends) > maxDepth:
			return n, boundError(fmt.Sprintf("a message of its answer is nested deeper than %d", maxDepth))
		default:
			at, ends = begin, append(ends, begin+length)
		}
		n++
	}
}

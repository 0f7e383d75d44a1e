// The websocket as a stream of bytes: the payload of its binary messages, with pings and
// the end taken out, and everything that the peer may not do refused.

package mux

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
)

const (
	readBuffer = 4 << 10 // larger reads go past it
	maxControl = 125
	// More than maxControls pings, pongs and closes within controlWindow are a flood.
	maxControls   = 200
	controlWindow = 10 * time.Second
)

type reader struct {
	in      *bufio.Reader
	masked  bool // the peer has to mask
	now     func() time.Time
	control func(op byte, payload []byte) error

	left   int64 // of the frame's payload
	key    [4]byte
	at     int  // position in the key
	inside bool // of a message that goes on

	controls int
	since    time.Time
}

func newReader(from *bufio.Reader, masked bool, now func() time.Time, control func(byte, []byte) error) *reader {
	return &reader{in: from, masked: masked, now: now, control: control}
}

// Read is of io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.left == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.unmask(p[:n])
	r.left -= int64(n)
	return n, err
}

func (r *reader) unmask(p []byte) {
	if r.masked {
		xor(p, r.key, r.at)
		r.at = (r.at + len(p)) % 4
	}
}

// next reads the head of a frame, and all of it when it is a control frame.
func (r *reader) next() error {
	var head [8]byte
	if _, err := io.ReadFull(r.in, head[:2]); err != nil {
		return err
	}
	last, op := head[0]&0x80 != 0, head[0]&0x0f
	size := uint64(head[1] & 0x7f)
	switch {
	case head[0]&0x70 != 0:
		return violationf("it sent a frame of an extension that was not agreed on")
	case (head[1]&0x80 != 0) != r.masked:
		return violationf("it sent a frame with a mask where there has to be none, or the other way round")
	}
	if wide := map[uint64]int{126: 2, 127: 8}[size]; wide > 0 {
		if op >= opClose {
			return violationf("it sent a control frame of more than %d bytes", maxControl)
		}
		if _, err := io.ReadFull(r.in, head[:wide]); err != nil {
			return err
		}
		size = binary.BigEndian.Uint64(append(make([]byte, 8-wide, 8), head[:wide]...))
	}
	if size >= 1<<62 {
		return violationf("it announced a frame of %d bytes", size)
	}
	if r.at = 0; r.masked {
		if _, err := io.ReadFull(r.in, r.key[:]); err != nil {
			return err
		}
	}
	if op >= opClose {
		return r.takeControl(op, int(size))
	}
	return r.begin(op, last, int64(size))
}

func (r *reader) begin(op byte, last bool, size int64) error {
	switch {
	case op == opText:
		return violationf("it sent a text message; a tunnel's messages are binary")
	case op == opBinary && r.inside:
		return violationf("it began a message inside of another")
	case op == opContinuation && !r.inside:
		return violationf("it went on with a message that it had not begun")
	case op != opBinary && op != opContinuation:
		return violationf("it sent a frame of the unknown kind %#x", op)
	case size == 0 && !last:
		return violationf("it sent an empty part of a message")
	}
	r.inside, r.left = !last, size
	if size == 0 {
		return r.count() // harmless, unless there is no end of them
	}
	return nil
}

func (r *reader) takeControl(op byte, size int) error {
	if err := r.count(); err != nil {
		return err
	}
	var payload [maxControl]byte
	if _, err := io.ReadFull(r.in, payload[:size]); err != nil {
		return err
	}
	r.unmask(payload[:size])
	return r.control(op, payload[:size])
}

func (r *reader) count() error {
	now := r.now()
	if now.Sub(r.since) > controlWindow {
		r.controls, r.since = 0, now
	}
	if r.controls++; r.controls > maxControls {
		return violationf("it sent more than %d pings within %s", maxControls, controlWindow)
	}
	return nil
}

package tunnel

import (
	"net"
	"os"
	"testing"
	"time"
)

// deadlines records what was set on a connection, in order with what was written.
type deadlines struct {
	net.Conn
	did []string
	by  time.Time
	err error // of Write
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.did, d.by = append(d.did, "deadline"), t
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.did = append(d.did, "write")
	if d.err != nil {
		return 0, d.err
	}
	return len(p), nil
}

func (d *deadlines) Close() error { return nil }

// TestEachWriteOfASocketHasADeadline: a peer that takes nothing ends the socket, which says why.
func TestEachWriteOfASocketHasADeadline(t *testing.T) {
	under := &deadlines{}
	s := newSocket(under, time.Now)
	for range 2 {
		under.by = time.Time{}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(under.by); left > writeLimit || left < writeLimit-5*time.Second {
			t.Errorf("a write may take %s, want %s", left, writeLimit)
		}
	}
	if got, want := len(under.did), 4; got != want || under.did[0] != "deadline" || under.did[2] != "deadline" {
		t.Errorf("did %v, want a deadline before each write", under.did)
	}
	under.err = os.ErrDeadlineExceeded
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("a write that took too long has worked")
	}
	if reason, over := s.over(); !over || reason != "it took nothing of what was sent to it for 15s" {
		t.Errorf("over %t: %s", over, reason)
	}
}

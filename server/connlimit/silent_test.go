package connlimit

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// silent opens connections that say nothing, one after the other.
func (b *bed) silent(t *testing.T, n int) (all []net.Conn) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", b.web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}

// ends waits for the end of a connection.
func ends(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it is open: %w", err)
	}
	return nil
}

// TestACrowdThatSaysNothingKeepsNobodyWaiting: a turn would be for an hour, and there are eight times as many as turns.
func TestACrowdThatSaysNothingKeepsNobodyWaiting(t *testing.T) {
	b := newBed(t, Options{PerSource: func() int { return 1 }, BeginWithin: time.Hour, SilentWithin: time.Hour})
	const many = 1000
	conns := b.silent(t, many)
	at := b.below.(*listener)
	waitFor(t, "all are held", func() bool { return len(at.held) == many })
	if n := len(at.turns); n > 1 { // one is for who comes next
		t.Errorf("%d turns are taken", n)
	}
	if err := ask(b.dial(t), "/", "good"); err != nil {
		t.Error(err)
	}
	if n, refused := b.Open(); n != 0 || refused != 0 || len(at.held) != many {
		t.Errorf("%d are counted, %d were refused, %d are silent", n, refused, len(at.held))
	}
	// Who was silent for long is served like others.
	if err := ask(tls.Client(conns[many-1], &tls.Config{InsecureSkipVerify: true}), "/", "good"); err != nil {
		t.Error(err)
	}
}

// TestTheLongestSilentMakesRoom for who comes; those that speak are not ended.
func TestTheLongestSilentMakesRoom(t *testing.T) {
	b := newBed(t, Options{Waiting: 3, SilentWithin: time.Hour})
	conns := b.silent(t, 3)
	at := b.below.(*listener)
	waitFor(t, "all are held", func() bool { return len(at.held) == 3 })
	if err := ask(b.dial(t), "/", "good"); err != nil {
		t.Error(err)
	}
	if err := ends(conns[0]); err != nil {
		t.Error("the first one:", err)
	}
	for i, c := range conns[1:] {
		if err := ask(tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "/", "good"); err != nil {
			t.Errorf("connection %d: %v", i+1, err)
		}
	}
	if _, refused := b.Open(); refused != 1 {
		t.Errorf("%d were refused, want 1", refused)
	}
}

// TestSilenceEnds by itself, and is over with the first byte.
func TestSilenceEnds(t *testing.T) {
	b := newBed(t, Options{SilentWithin: 300 * time.Millisecond})
	defer close(b.release)
	spoke := b.dial(t)
	if err := ask(spoke, "/", "good"); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.silent(t, 3) {
		if err := ends(c); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, "their room is given back", func() bool { return len(b.below.(*listener).held) == 0 })
	if err := ask(spoke, "/", "good"); err != nil {
		t.Errorf("one that has spoken was ended: %v", err)
	}
}

// TestThoseThatSpeakAreNotEnded for others: where no more are held they wait in the kernel, and all are answered.
func TestThoseThatSpeakAreNotEnded(t *testing.T) {
	const all = 6
	var entered atomic.Int64
	b := newBed(t, Options{Waiting: 2, AtOnce: 1, BeginWithin: time.Hour, AnswerWithin: time.Hour, SilentWithin: time.Hour})
	b.entered = func() (leave func()) { entered.Add(1); return func() {} }
	conns := b.silent(t, 1)
	var group sync.WaitGroup
	speak := func(c net.Conn) {
		group.Go(func() {
			if err := ask(tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "/late", "good"); err != nil {
				t.Error(err)
			}
		})
	}
	speak(conns[0])
	waitFor(t, "the first one is begun", func() bool { return entered.Load() == 1 })
	at := b.below.(*listener)
	for n := range 2 {
		speak(b.silent(t, 1)[0])
		waitFor(t, "it waits for its turn", func() bool { return len(at.waiting) == n+1 })
	}
	for _, c := range b.silent(t, all-3) {
		speak(c)
	}
	answered := make(chan struct{})
	go func() { group.Wait(); close(answered) }()
	for released := 0; released < all; released++ {
		select {
		case b.release <- struct{}{}:
		case <-answered:
			released = all // some were ended, as is said above
		}
	}
	<-answered
	if _, refused := b.Open(); refused != 0 {
		t.Errorf("%d were refused", refused)
	}
}

// TestASilentCrowdOfOneSourceMakesRoomAtOnce: a source that has its share of silent connections keeps no connection of another
// source waiting, not even for as long as a client may hesitate.
func TestASilentCrowdOfOneSourceMakesRoomAtOnce(t *testing.T) {
	b := newBed(t, Options{Waiting: 8, SilentPerSource: 4, SilentWithin: time.Hour})
	many := b.silent(t, 200) // far more than are held, and all of them within the second of a client that hesitates
	at := b.below.(*listener)
	waitFor(t, "the last of the crowd are held", func() bool { _, refused := b.Open(); return refused == 196 && len(at.held) == 4 })
	for i, c := range many[:196] {
		if err := ends(c); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := tls.DialWithDialer(other, "tcp", b.web.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := ask(c, "/", "good"); err != nil {
		t.Error(err)
	}
	if n := at.silent.of(at.silent.conns.Front().Value.(*hush).source); n != 4 {
		t.Errorf("%d of the crowd are held, want 4", n)
	}
}

package tunnel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheHostsRefusalIsAnErrorOfItsOwn(t *testing.T) {
	overEach(t, testTheHostsRefusalIsAnErrorOfItsOwn)
}

func testTheHostsRefusalIsAnErrorOfItsOwn(t *testing.T, b *bed) {
	b.join(t, "m1", inProcess(nil))
	c := b.dial(t, "m1", "10.0.0.1:22")
	var refused *TargetRefusedError
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &refused) {
		t.Fatalf("err = %v", err)
	}
	if want := (TargetRefusedError{"m1", "tcp", "10.0.0.1:22", "refused by this host"}); *refused != want {
		t.Errorf("refusal %+v, want %+v", *refused, want)
	}
	if info := b.Sessions()[0]; !info.Healthy || info.Failures != 1 {
		t.Errorf("the session counts as %+v; the host did answer", info)
	}
	if got := b.Stats().Failures; got[string(failTarget)] != 1 {
		t.Errorf("failures %v", got)
	}
}

// TestATunnelProvesItself before its subject has it; one that does not is closed, with the reason.
func TestATunnelProvesItself(t *testing.T) { overEach(t, testATunnelProvesItself) }

func testATunnelProvesItself(t *testing.T, b *bed) {
	asked, answer := make(chan struct{}), make(chan error)
	b.prove = func(ctx context.Context, dial func(context.Context, Target) (net.Conn, error)) error {
		c, err := dial(ctx, Target{Network: "tcp", Address: "echo:1"})
		if err != nil {
			return err
		}
		defer c.Close()
		wantEcho(t, c, "x")
		asked <- struct{}{}
		select {
		case err = <-answer:
		case <-ctx.Done():
			err = ctx.Err()
		}
		return err
	}
	statuses := make(chan Status, 1000)
	o := b.options("m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	o.Changed = func(s Status) { statuses <- s }
	start(t, NewClient(o))
	<-asked
	if _, open := b.Connected("m1"); open {
		t.Error("the subject has the tunnel already")
	}
	if _, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "echo:1"}); err == nil {
		t.Error("it is dialled through")
	}
	answer <- errors.New("it is another one")
	for s := range statuses {
		if s.Cause != nil {
			if !strings.Contains(s.Cause.Error(), "it is another one") {
				t.Errorf("the client hears %v", s.Cause)
			}
			break
		}
	}
	<-asked // it tries again
	answer <- nil
	waitUntil(t, "the subject has its tunnel", func() bool { _, open := b.Connected("m1"); return open })
}

func TestLostConnectionSaysWhetherItWasAnswered(t *testing.T) {
	overEach(t, testLostConnectionSaysWhetherItWasAnswered)
}

func testLostConnectionSaysWhetherItWasAnswered(t *testing.T, b *bed) {
	over := make(chan struct{})
	defer close(over)
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo, "hang:1": silence(over)}))
	answered, not := b.dial(t, "m1", "echo:1"), b.dial(t, "m1", "hang:1")
	wantEcho(t, answered, "x")
	b.sessionsOf("m1")[0].socket.end("pulled")
	for c, want := range map[net.Conn]bool{answered: true, not: false} {
		var lost *LostError
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &lost) || lost.Answered != want || !strings.Contains(lost.Reason, "pulled") {
			t.Errorf("err = %v, want a loss, answered %t", err, want)
		}
	}
}

func TestIdleConnectionIsClosed(t *testing.T) { overEach(t, testIdleConnectionIsClosed) }

func testIdleConnectionIsClosed(t *testing.T, b *bed) {
	b.limits.idle = 3 * time.Second // the busy one must not be still for so long on any machine
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	idle, busy := b.dial(t, "m1", "echo:1"), b.dial(t, "m1", "echo:1")
	wantEcho(t, idle, "x")
	over := make(chan error, 1)
	go func() { _, err := idle.Read(make([]byte, 1)); over <- err }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		wantEcho(t, busy, "x")
		select {
		case err := <-over:
			if err == nil || !strings.Contains(err.Error(), "no byte had passed for 3s") {
				t.Errorf("the idle one ended with %v", err)
			}
			return
		case <-tick.C:
		}
	}
}

func TestStalledWriteEnds(t *testing.T) { overEach(t, testStalledWriteEnds) }

func testStalledWriteEnds(t *testing.T, b *bed) {
	b.limits.stall = 100 * time.Millisecond
	over := make(chan struct{})
	defer close(over)
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"hang:1": silence(over)}))
	c := b.dial(t, "m1", "hang:1")
	var err error
	for err == nil {
		_, err = c.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "took nothing for 100ms") {
		t.Errorf("err = %v", err)
	}
	patient, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "hang:1", Patient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	if got := patient.(*conn).stall; got != 15*time.Minute {
		t.Errorf("a person's connection may stall for %s", got)
	}
}

// speak dials and does a handshake, a byte there and back, which alone proves that a dial
// has worked. A dial that was lost before anything came back is repeated, as callers do.
func (b *bed) speak(ctx context.Context, subject, address string) (c net.Conn, err error) {
	for range 3 {
		if c, err = b.Dial(ctx, subject, Target{Network: "tcp", Address: address}); err != nil {
			return nil, err
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err = c.Write([]byte("?")); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		if err == nil {
			c.SetDeadline(time.Time{})
			return c, nil
		}
		c.Close()
		var lost *LostError
		if !errors.As(err, &lost) || lost.Answered {
			break
		}
	}
	return nil, err
}

func TestSessionsReportWhatPeopleAsk(t *testing.T) { overEach(t, testSessionsReportWhatPeopleAsk) }

func testSessionsReportWhatPeopleAsk(t *testing.T, b *bed) {
	stop := b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	c := b.dial(t, "m1", "echo:1")
	wantEcho(t, c, "12345")
	all := b.Sessions()
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	one := all[0]
	if one.Subject != "m1" || one.Kind != "test" || one.Protocol != b.protocol() || !strings.HasPrefix(one.Remote, "127.0.0.1:") ||
		one.Since.IsZero() || one.LastHeard.Before(one.Since) || one.LastAnswer.Before(one.Since) || !one.Healthy ||
		one.Connections != 1 || one.Dials != 1 || one.Failures != 0 || one.BytesIn != 5 || one.BytesOut != 5 {
		t.Errorf("session %+v", one)
	}
	stop()
	waitUntil(t, "the end is noted", func() bool { return len(b.Ended("")) == 1 })
	if got := b.Ended("")[0]; got.Subject != "m1" || !strings.Contains(got.Reason, "the client is stopping") {
		t.Errorf("ended %+v", got)
	}
	stats := b.Stats()
	if stats.Opened != 1 || stats.Ended != 1 || stats.Dials != 1 || stats.BytesIn != 5 || stats.Latency.Count != 1 || stats.Latency.Buckets[10] != 1 {
		t.Errorf("stats %+v", stats)
	}
	_, err := b.Dial(t.Context(), "m1", Target{Network: "tcp", Address: "echo:1"})
	if err == nil || !strings.Contains(err.Error(), "the client is stopping") {
		t.Errorf("dial after the end: %v, want why it ended", err)
	}
}

func TestOnlyTheLastEndsAreKept(t *testing.T) {
	b := newBed(t)
	now := time.Now()
	b.Server.now = func() time.Time { return now }
	for range keptEnds + 2 {
		one := newSession(Peer{Subject: "m1"}, "", b.Server, "")
		here, there := net.Pipe()
		defer there.Close()
		one.socket = newSocket(here, b.Server.now)
		b.Server.add(one)
		b.Server.remove(one, "over")
	}
	if got := len(b.Ended("m1")); got != keptEnds {
		t.Errorf("%d are kept", got)
	}
	now = now.Add(keptGone + 2*time.Hour)
	b.Server.mu.Lock()
	b.Server.prune(now)
	b.Server.mu.Unlock()
	if got := b.Ended("m1"); len(got) != 0 {
		t.Errorf("%d are kept of one that is gone for more than a day", len(got))
	}
}

// A host whose network is gone says nothing, and no connection ends by that.
func TestSilentHostIsGivenUp(t *testing.T) {
	b := newBed(t)
	b.silence = 300 * time.Millisecond
	b.raw(t, "m1") // never reads, never pings
	waitUntil(t, "it is given up", func() bool { return len(b.Ended("m1")) == 1 })
	if got := b.Ended("m1")[0].Reason; !strings.Contains(got, "nothing was heard of it for 300ms") {
		t.Errorf("reason %q", got)
	}
	if silenceLimit > 30*time.Second {
		t.Error("a dead peer has to be noticed within 30 s")
	}
}

func TestMessagesAreRecordedWithoutPayload(t *testing.T) {
	overEach(t, testMessagesAreRecordedWithoutPayload)
}

func testMessagesAreRecordedWithoutPayload(t *testing.T, b *bed) {
	var text strings.Builder
	var mu sync.Mutex
	b.Server.o.Messages = true
	b.Server.log = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.join(t, "m1", inProcess(map[string]func(net.Conn){"echo:1": echo}))
	wantEcho(t, b.dial(t, "m1", "echo:1"), "s3cret")
	mu.Lock()
	defer mu.Unlock()
	if got := text.String(); !strings.Contains(got, "kind=data connection=2 bytes=6") || strings.Contains(got, "s3cret") {
		t.Errorf("recorded:\n%s", got)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A newer tunnel from another address does not take a healthy one's place, one from its own does.
func TestTheFirstHealthyTunnelKeepsItsPlace(t *testing.T) {
	b := newBed(t)
	join := func(from string) {
		o := b.options("m1", inProcess(nil))
		header := o.Header
		o.Header = func() http.Header { h := header(); h.Set(fromHeader, from); return h }
		before := len(b.sessionsOf("m1"))
		start(t, NewClient(o))
		waitUntil(t, "the tunnel is open", func() bool { return len(b.sessionsOf("m1")) > before })
	}
	order := func(want ...int) {
		t.Helper()
		all := b.sessionsOf("m1")
		got, err := b.candidates("m1")
		if err != nil || len(got) != len(want) {
			t.Fatal(len(got), err)
		}
		for i, one := range got {
			if one != all[want[i]] {
				t.Errorf("candidate %d is session %d, want %d", i, slices.Index(all, one), want[i])
			}
		}
	}
	join("192.0.2.1:1")
	join("192.0.2.1:2")
	order(1, 0)
	join("203.0.113.9:1")
	order(1, 0, 2)
	all := b.sessionsOf("m1")
	for _, one := range all[:2] {
		one.mu.Lock()
		one.failed = b.now()
		one.mu.Unlock()
	}
	order(2, 1, 0)
}

package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestFencedWrites(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	leader := must(s.Campaign(t.Context(), "controllers", "one"))(t)
	fenced := Fenced(t.Context(), leader)
	d := must(notes.Create(fenced, "a", note{Text: "1"}))(t)
	if _, err := notes.Create(fenced, "a", note{}); !is[*ExistsError](err) {
		t.Errorf("a fenced write with another conflict: %v", err)
	}

	// Another takes over behind the leader's back: its key is gone, and it was not notified.
	// The condition in the transaction must refuse alone, so what notifies is taken away.
	s.leaders.remove(leader)
	must(s.client.Delete(t.Context(), leader.key))(t)
	next := must(s.Campaign(t.Context(), "controllers", "two"))(t)
	revision := func() int64 { return must(s.client.Get(t.Context(), schemaKey))(t).Header.Revision }
	before := revision()
	for _, c := range []struct {
		name  string
		write func() error
	}{
		{"update", func() error {
			_, err := notes.Update(fenced, Document[note]{Key: "a", Revision: d.Revision, Value: note{Text: "2"}})
			return err
		}},
		{"again, now that it is known", func() error { _, err := notes.Create(fenced, "b", note{}); return err }},
		{"delete", func() error { return notes.Delete(fenced, "a", 0) }},
		{"modify", func() error {
			_, err := notes.Modify(fenced, "a", func(n note) (note, error) { return n, nil })
			return err
		}},
		{"commit of nothing", func() error { _, err := s.Commit(fenced); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var deposed *DeposedError
			if err := c.write(); !errors.As(err, &deposed) || *deposed != (DeposedError{Name: "controllers", Identity: "one"}) {
				t.Errorf("got error %v", err)
			}
		})
	}
	if got, _ := notes.Get("a"); got.Revision != d.Revision || revision() != before {
		t.Error("a deposed leader wrote")
	}
	select {
	case <-leader.Lost():
	default:
		t.Error("the refused leader does not know that it is lost")
	}
	must(notes.Create(Fenced(t.Context(), next), "c", note{}))(t)
	must(notes.Create(t.Context(), "d", note{}))(t)
	if _, err := notes.Create(Fenced(t.Context(), nil), "e", note{}); err == nil {
		t.Error("a write fenced by no leadership was done")
	}
	other, _, _ := openNotes(t, t.TempDir())
	foreign := must(other.Campaign(t.Context(), "controllers", "one"))(t)
	if _, err := notes.Create(Fenced(t.Context(), foreign), "e", note{}); err == nil {
		t.Error("a write fenced by a leadership of another store was done")
	}
}

func TestOneLeader(t *testing.T) {
	t.Parallel()
	s, _, _ := openNotes(t, t.TempDir())
	leads := make(chan string, 100)
	s.OnLeader(func() { leads <- s.Leader("controllers") })
	until := func(want string) {
		t.Helper()
		for end := time.After(time.Minute); s.Leader("controllers") != want; {
			select {
			case <-leads:
			case <-end:
				t.Fatalf("%q leads, not %q", s.Leader("controllers"), want)
			}
		}
	}
	until("")
	must(s.Campaign(t.Context(), "controllers-other", "another"))(t) // another name
	first := must(s.Campaign(t.Context(), "controllers", "one"))(t)
	until("one")
	for _, name := range []string{"", "controllers/other"} {
		if _, err := s.Campaign(t.Context(), name, "one"); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := s.Campaign(ctx, "controllers", "impatient")
		gaveUp <- err
	}()
	won := make(chan *Leadership)
	go func() {
		l, err := s.Campaign(t.Context(), "controllers", "two")
		if err != nil {
			t.Error(err)
		}
		won <- l
	}()
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("a campaign whose context ended: %v", err)
	}
	select {
	case <-won:
		t.Fatal("there are two leaders")
	case <-first.Lost():
		t.Fatal("the leader is lost for no reason")
	default:
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-first.Lost()
	second := <-won
	until("two")
	if second.revision <= first.revision {
		t.Errorf("the next leader has revision %d, the one before %d", second.revision, first.revision)
	}

	// The lease ends, as when the server could not reach etcd for long.
	must(s.client.Revoke(t.Context(), second.session.Lease()))(t)
	<-second.Lost()
	until("")
	third := must(s.Campaign(t.Context(), "controllers", "three"))(t)
	until("three")
	closeStore(t, s)
	<-third.Lost()
}

// Who waits for leadership does not hold Close up.
func TestCloseWhileCampaigning(t *testing.T) {
	t.Parallel()
	s, _, _ := openNotes(t, t.TempDir())
	must(s.Campaign(t.Context(), "controllers", "one"))(t)
	waiting := make(chan error)
	go func() {
		_, err := s.Campaign(t.Context(), "controllers", "two")
		waiting <- err
	}()
	for len(must(s.client.Leases(t.Context()))(t).Leases) < 2 { // until the second stands
	}
	closeStore(t, s)
	if err := <-waiting; err == nil {
		t.Error("the campaign was won while the store closed")
	}
}

// After a kill -9 no server waits for the lease of the dead.
func TestLeaderAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command, lines := startChild(t, "leader", dir)
	if !lines.Scan() || lines.Text() != "leader" {
		t.Fatalf("the child says %q", lines.Text())
	}
	kill(command)
	start := time.Now()
	s, notes, _ := openNotes(t, dir)
	opened := time.Since(start)
	leader := must(s.Campaign(t.Context(), "controllers", "next"))(t)
	must(notes.Create(Fenced(t.Context(), leader), "a", note{}))(t)
	t.Logf("open after %s, leader and first write after %s", opened, time.Since(start))
	if took := time.Since(start) - opened; took > leaseTTL*time.Second/2 {
		t.Errorf("leading took %s: the old lease was waited for", took)
	}
}

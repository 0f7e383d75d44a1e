package store

import (
	"path/filepath"
	"testing"
	"time"
)

func TestLeasedDocumentsGoWithTheirLease(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, notes, _ := openNotes(t, dir)
	gone := make(chan string, 10)
	defer notes.Observe(func(e Event[note]) {
		if e.Type == Deleted {
			gone <- e.Key
		}
	})()
	lease := must(s.NewLease(t.Context(), 10*time.Second))(t)
	must(s.Commit(t.Context(), notes.Creating("leased", note{}).Under(lease), notes.Creating("stays", note{})))(t)
	d, ok := notes.Get("leased")
	if !ok {
		t.Fatal("a leased document is not there")
	}
	d.Value.Text = "changed"
	must(s.Commit(t.Context(), notes.Updating(d).Under(lease)))(t)
	if err := lease.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if key := <-gone; key != "leased" {
		t.Errorf("%s is gone", key)
	}
	if _, err := s.Commit(t.Context(), notes.Creating("late", note{}).Under(lease)); err == nil {
		t.Error("a document was written under a lease that has ended")
	}
	second := must(s.NewLease(t.Context(), 10*time.Second))(t)
	must(s.Commit(t.Context(), notes.Creating("again", note{}).Under(second)))(t)
	closeStore(t, s)
	select {
	case <-second.Lost():
	case <-time.After(10 * time.Second):
		t.Error("a lease outlived its store")
	}
	_, notes, _ = openNotes(t, dir)
	if _, ok := notes.Get("again"); ok {
		t.Error("a leased document outlived the process")
	}
	if _, ok := notes.Get("stays"); !ok {
		t.Error("an ordinary document is gone")
	}
}

func TestLostLeaseIsNoticed(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	lease := must(s.NewLease(t.Context(), 10*time.Second))(t)
	must(s.Commit(t.Context(), notes.Creating("leased", note{}).Under(lease)))(t)
	must(s.client.Revoke(t.Context(), lease.id))(t)
	select {
	case <-lease.Lost():
	case <-time.After(30 * time.Second):
		t.Error("nobody was notified that the lease is lost")
	}
}

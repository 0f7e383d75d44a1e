package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// busy makes the store believe that a transaction is under way, so that those of a test
// wait for each other; release lets them go on together.
func busy(s *Store) (release func()) {
	s.groupLock.Lock()
	s.groupBusy = true
	s.groupLock.Unlock()
	return func() { s.drain() }
}

// queued waits until so many transactions wait.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s.groupLock.Lock()
		have := len(s.queue)
		s.groupLock.Unlock()
		if have == n {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d of %d transactions wait", have, n)
		case <-time.After(time.Millisecond):
		}
	}
}

// Each transaction of a group succeeds or fails by itself.
func TestGroupsDoNotShareTheirFate(t *testing.T) {
	s, plain, secret := openNotes(t, t.TempDir())
	old, err := plain.Create(t.Context(), "old", note{Text: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Create(t.Context(), "taken", note{}); err != nil {
		t.Fatal(err)
	}
	leadership, err := s.Campaign(t.Context(), "notes", "me")
	if err != nil {
		t.Fatal(err)
	}
	fenced := Fenced(t.Context(), leadership)
	stale := old
	stale.Revision--
	writes := []struct {
		ctx  context.Context
		op   Op
		want any // target of errors.As; nil for success
	}{
		{t.Context(), plain.Creating("a", note{Text: "a"}), nil},
		{t.Context(), plain.Creating("taken", note{}), new(*ExistsError)},
		{fenced, plain.Updating(old), nil},
		{t.Context(), secret.Deleting("nothing", 0), new(*NotFoundError)},
		{t.Context(), secret.Creating("b", note{Text: "b"}), nil},
	}
	// The view may still be behind the write of the campaign, so etcd itself is asked.
	before := must(s.client.Get(t.Context(), "revision"))(t).Header.Revision
	release := busy(s)
	revisions, errs := make([]int64, len(writes)), make([]error, len(writes))
	var group sync.WaitGroup
	for i, w := range writes {
		group.Go(func() { revisions[i], errs[i] = s.Commit(w.ctx, w.op) })
		queued(t, s, i+1)
	}
	// Of two writes of one document the second waits for the next group.
	var conflict *ConflictError
	var lateErr error
	group.Go(func() { _, lateErr = s.Commit(t.Context(), plain.Updating(stale)) })
	queued(t, s, len(writes)+1)
	release()
	group.Wait()
	for i, w := range writes {
		switch {
		case w.want == nil && errs[i] != nil:
			t.Errorf("write %d: %v", i, errs[i])
		case w.want == nil && revisions[i] != before+1:
			t.Errorf("write %d at revision %d, want %d for all of the group", i, revisions[i], before+1)
		case w.want != nil && !errors.As(errs[i], w.want):
			t.Errorf("write %d: %v", i, errs[i])
		}
	}
	if !errors.As(lateErr, &conflict) || conflict.Current != before+1 {
		t.Errorf("write of a stale document: %v", lateErr)
	}
	if s.Revision() != before+1 {
		t.Errorf("%d transactions of etcd, want 1", s.Revision()-before)
	}
	for key, want := range map[string]string{"a": "a", "old": "1"} {
		if d, ok := plain.Get(key); !ok || d.Value.Text != want || d.Revision != before+1 {
			t.Errorf("%s = %+v", key, d)
		}
	}
	if d, ok := secret.Get("b"); !ok || d.Value.Text != "b" {
		t.Errorf("b = %+v", d)
	}
}

func TestADeposedLeaderCannotWriteInAGroup(t *testing.T) {
	s, plain, _ := openNotes(t, t.TempDir())
	leadership, err := s.Campaign(t.Context(), "notes", "me")
	if err != nil {
		t.Fatal(err)
	}
	release := busy(s)
	var group sync.WaitGroup
	var fencedErr, freeErr error
	group.Go(func() { _, fencedErr = s.Commit(Fenced(t.Context(), leadership), plain.Creating("fenced", note{})) })
	queued(t, s, 1)
	group.Go(func() { _, freeErr = s.Commit(t.Context(), plain.Creating("free", note{})) })
	queued(t, s, 2)
	if _, err := s.client.Delete(t.Context(), leadership.key); err != nil {
		t.Fatal(err)
	}
	release()
	group.Wait()
	var deposed *DeposedError
	if !errors.As(fencedErr, &deposed) || freeErr != nil {
		t.Errorf("fenced: %v, free: %v", fencedErr, freeErr)
	}
	if _, ok := plain.Get("fenced"); ok {
		t.Error("a deposed leader has written")
	}
}

func TestGroupsAreBounded(t *testing.T) {
	s, plain, _ := openNotes(t, t.TempDir())
	release := busy(s)
	const all = 2*maxGroup + 5
	var group sync.WaitGroup
	before := s.Revision()
	for i := range all {
		group.Go(func() {
			if _, err := s.Commit(t.Context(), plain.Creating(fmt.Sprint(i), note{})); err != nil {
				t.Error(err)
			}
		})
	}
	queued(t, s, all)
	// A writer that gives up does not hold the others up.
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		if _, err := s.Commit(ctx, plain.Creating("given up", note{})); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
	queued(t, s, all+1)
	cancel()
	// What is large goes at once and by itself.
	var ops []Op
	for i := range maxGroupOps + 1 {
		ops = append(ops, plain.Creating(fmt.Sprint("large-", i), note{}))
	}
	if _, err := s.Commit(t.Context(), ops...); err != nil {
		t.Error(err)
	}
	release()
	group.Wait()
	if used := s.Revision() - before; used != 1+3 {
		t.Errorf("%d transactions of etcd, want one and three groups", used)
	}
}

func TestClosingEndsThoseWhoWait(t *testing.T) {
	s, plain, _ := openNotes(t, t.TempDir())
	busy(s)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), plain.Creating("late", note{}))
		failed <- err
	}()
	queued(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v", err)
	}
}

// A write that its writer has given up is not performed later, however long the store was busy.
func TestWhatNobodyWaitsForIsNotWritten(t *testing.T) {
	s, plain, _ := openNotes(t, t.TempDir())
	release := busy(s)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { _, err := s.Commit(ctx, plain.Creating("late", note{})); given <- err }()
	queued(t, s, 1)
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("the writer that gave up got %v", err)
	}
	release()
	if _, err := plain.Create(t.Context(), "next", note{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := plain.Get("late"); ok {
		t.Error("it was written after its writer was notified that it failed")
	}
}

package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestHistoryIsDueBySize(t *testing.T) {
	h := history{limit: 100}
	for i, c := range []struct {
		bytes    int
		revision int64
		done     bool // the compaction before has ended
		want     int64
	}{
		{bytes: 99, revision: 10},
		{bytes: 1, revision: 11}, // the first one only begins to count
		{bytes: 99, revision: 12},
		{bytes: 200, revision: 13, want: 11},
		{bytes: 200, revision: 14}, // one at a time
		{bytes: 1, revision: 15, done: true, want: 13},
	} {
		if c.done {
			h.done()
		}
		if got := h.due(c.bytes, c.revision, time.Time{}); got != c.want {
			t.Errorf("write %d: drop up to %d, want %d", i, got, c.want)
		}
	}
}

func TestHistoryIsDueByAge(t *testing.T) {
	h, began := history{age: time.Minute}, time.Unix(1000, 0)
	for i, c := range []struct {
		after    time.Duration
		revision int64
		want     int64
	}{
		{after: 0, revision: 10}, // the first one only begins to count
		{after: 59 * time.Second, revision: 11},
		{after: time.Minute, revision: 12, want: 10},
		{after: 90 * time.Second, revision: 13},
		{after: time.Hour, revision: 14, want: 12},
	} {
		if got := h.due(1<<30, c.revision, began.Add(c.after)); got != c.want {
			t.Errorf("write %d: drop up to %d, want %d", i, got, c.want)
		}
		h.done()
	}
}

// TestOldHistoryIsDropped: what was written long ago is gone from etcd, and what was written just now is not.
func TestOldHistoryIsDropped(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		dropsHistory(t, Options{DataDir: t.TempDir(), UnsafeNoFsync: true, limits: limits{historyBytes: 4 << 10}})
	})
	t.Run("external", func(t *testing.T) {
		e := startExternalEtcd(t)
		dropsHistory(t, Options{DataDir: t.TempDir(), Endpoints: []string{"https://" + e.address}, TLS: e.tls, limits: limits{historyAge: 100 * time.Millisecond}})
	})
}

func dropsHistory(t *testing.T, o Options) {
	t.Helper()
	notes := NewCollection[note]("notes", false)
	s, err := openWith(t.Context(), o, nil, notes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := notes.Create(t.Context(), "a", note{Text: "first"})
	if err != nil {
		t.Fatal(err)
	}
	first, before := d.Revision, d.Revision
	old := func(revision int64) error {
		_, err := s.client.Get(t.Context(), documentKey("notes", "a"), clientv3.WithRev(revision))
		return err
	}
	for end := time.Now().Add(20 * time.Second); !errors.Is(old(first), rpctypes.ErrCompacted); {
		if time.Now().After(end) {
			t.Fatal("the first revision is still there")
		}
		before = d.Revision
		if d, err = notes.Update(t.Context(), Document[note]{Key: "a", Revision: d.Revision, Value: note{Text: strings.Repeat("x", 1<<10)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := old(before); err != nil {
		t.Errorf("the revision before the last one is gone: %v", err)
	}
	if got, ok := notes.Get("a"); !ok || got.Revision != d.Revision {
		t.Errorf("the view has revision %d, want %d", got.Revision, d.Revision)
	}
}

// TestPast: a store that was opened again knows what changed before, removals with what was removed, as far as etcd has it and in its order.
func TestPast(t *testing.T) {
	o := Options{DataDir: t.TempDir(), UnsafeNoFsync: true}
	began := int64(0)
	written := func(f func(s *Store, notes *Collection[note])) {
		t.Helper()
		notes := NewCollection[note]("notes", true)
		s, err := openWith(t.Context(), o, nil, notes)
		if err != nil {
			t.Fatal(err)
		}
		f(s, notes)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	written(func(s *Store, notes *Collection[note]) {
		began = s.Revision()
		must(notes.Create(t.Context(), "a", note{Text: "first"}))
		must(notes.Create(t.Context(), "b", note{Text: "second"}))
		d, _ := notes.Get("a")
		d.Value.Text = "changed"
		must(notes.Update(t.Context(), d))
		must(nil, notes.Delete(t.Context(), "a", 0))
	})
	seen := func(s *Store) (lines string, floor int64) {
		t.Helper()
		all, floor, err := s.Past(t.Context(), s.Revision())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Collection == "notes" {
				lines += fmt.Sprintf("%s created=%t removed=%v; ", p.Key, p.Created, p.Removed)
			}
		}
		return lines, floor
	}
	written(func(s *Store, notes *Collection[note]) {
		if got, floor := seen(s); got != "a created=true removed=<nil>; b created=true removed=<nil>; a created=false removed=<nil>; a created=false removed={changed map[] []}; " || floor > began {
			t.Errorf("%s, after %d of %d", got, floor, began)
		}
		d, _ := notes.Get("b")
		dropped := s.Revision()
		must(s.client.Compact(t.Context(), dropped, clientv3.WithCompactPhysical()))
		must(notes.Update(t.Context(), d))
		if got, floor := seen(s); got != "b created=false removed=<nil>; " || floor != dropped {
			t.Errorf("with dropped history %s, after %d of %d", got, floor, dropped)
		}
		now := s.Revision()
		all, floor, err := lastValues(t.Context(), s, []PastChange{
			{Collection: "notes", Key: "b", Revision: now - 1}, {Collection: "notes", Key: "ghost", Revision: now, removed: true}, {Collection: "notes", Key: "b", Revision: now + 1},
		}, 0)
		if err != nil || floor != now || len(all) != 1 || all[0].Revision != now+1 {
			t.Errorf("beside one whose value is not known: %+v, after %d of %d, %v", all, floor, now, err)
		}
	})
}

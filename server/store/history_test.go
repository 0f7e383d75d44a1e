package store

import (
	"errors"
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
		if got := h.due(c.bytes, c.revision); got != c.want {
			t.Errorf("write %d: drop up to %d, want %d", i, got, c.want)
		}
	}
}

// TestOldHistoryIsDropped: what was written long ago is gone from etcd, and what was written just now is not.
func TestOldHistoryIsDropped(t *testing.T) {
	notes := NewCollection[note]("notes", false)
	s, err := openWith(t.Context(), Options{DataDir: t.TempDir(), UnsafeNoFsync: true, historyBytes: 4 << 10}, nil, notes)
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

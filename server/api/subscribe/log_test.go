package subscribe

import (
	"fmt"
	"testing"
	"time"
)

func keys(changes []Change) string {
	s := ""
	for _, c := range changes {
		s += c.Key
	}
	return s
}

func TestSince(t *testing.T) {
	l := NewLog(time.Now)
	l.Begin(10)
	for _, c := range []Change{{Revision: 11, Key: "a"}, {Revision: 13, Key: "b"}, {Revision: 13, Key: "c"}, {Revision: 14, Key: "d"}} {
		l.Add(c)
	}
	for _, c := range []struct {
		name  string
		since int64
		want  string
		ok    bool
	}{
		{"before the log began", 9, "", false},
		{"where it began", 10, "abcd", true},
		{"between", 12, "bcd", true},
		{"one of two of a transaction was seen", 13, "bcd", true},
		{"the last", 14, "d", true},
		{"newer than the store", 15, "", false},
		{"negative", -1, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cursor, ok := l.Since(c.since)
			changes, _, head, _, known := l.Next(cursor)
			if ok != c.ok || keys(changes) != c.want || head != 14 || !known {
				t.Errorf("ok %v, changes %q, head %d", ok, keys(changes), head)
			}
		})
	}
}

func TestAfter(t *testing.T) {
	l := NewLog(time.Now)
	l.Begin(10)
	for _, c := range []Change{{Revision: 11, Key: "a"}, {Revision: 13, Key: "b"}, {Revision: 13, Key: "c"}, {Revision: 14, Key: "d"}} {
		l.Add(c)
	}
	for revision, want := range map[int64]string{9: "lost", 10: "abcd", 12: "bcd", 13: "d", 14: "", 15: ""} {
		cursor, ok := l.After(revision)
		got := "lost"
		if ok {
			changes, _, _, _, _ := l.Next(cursor)
			got = keys(changes)
		}
		if got != want {
			t.Errorf("after %d comes %q, want %q", revision, got, want)
		}
	}
}

// TestRecall: what was before the log began stands in front of it, without what came twice, and clients go on from there.
func TestRecall(t *testing.T) {
	l := NewLog(time.Now)
	l.Add(Change{Revision: 9, Key: "c"}) // by an observer that came first
	l.Begin(10)
	l.Add(Change{Revision: 12, Key: "e"})
	known := make(chan struct{})
	l.AwaitPast(known)
	waited := make(chan bool)
	go func() {
		_, ok := l.Since(7)
		waited <- ok
	}()
	if _, ok := l.After(12); !ok {
		t.Error("a client that saw nothing from before the log began waits for what was before")
	}
	l.Recall([]Change{{Revision: 7, Key: "a"}, {Revision: 8, Key: "b"}, {Revision: 9, Key: "c"}, {Revision: 10, Key: "d"}}, 6)
	close(known)
	for revision, want := range map[int64]string{5: "lost", 6: "abcde", 8: "cde", 10: "e", 12: ""} {
		got := "lost"
		if cursor, ok := l.After(revision); ok {
			changes, _, _, _, known := l.Next(cursor)
			if got = keys(changes); !known {
				got = "gone"
			}
		}
		if got != want {
			t.Errorf("after %d comes %q, want %q", revision, got, want)
		}
	}
	if !<-waited {
		t.Error("a client that asked before the past was known lost something")
	}
	if changes, _, _, _, ok := l.Next(l.Now()); !ok || len(changes) > 0 {
		t.Errorf("now comes %q, %t", keys(changes), ok)
	}
}

func TestChangesBeforeBegin(t *testing.T) {
	l := NewLog(time.Now)
	l.Add(Change{Revision: 7, Key: "a"})
	l.Begin(6)
	if cursor, ok := l.Since(6); !ok {
		t.Error("what came between observing and beginning is lost")
	} else if changes, _, _, _, _ := l.Next(cursor); keys(changes) != "a" {
		t.Errorf("changes %q", keys(changes))
	}
}

func TestNextIsInBatches(t *testing.T) {
	l := NewLog(time.Now)
	for i := range int64(1200) {
		l.Add(Change{Revision: i + 1, Key: "x"})
	}
	cursor, _ := l.Since(0)
	var sizes []int
	for {
		changes, after, head, _, ok := l.Next(cursor)
		if !ok {
			t.Fatal("lost")
		}
		if len(changes) == 0 {
			break
		}
		if int64(after) != int64(cursor)+int64(len(changes)) || len(changes) == 500 && head != changes[499].Revision {
			t.Errorf("after %d, head %d", after, head)
		}
		sizes, cursor = append(sizes, len(changes)), after
	}
	if fmt.Sprint(sizes) != "[500 500 200]" {
		t.Errorf("batches %v", sizes)
	}
}

func TestOldChangesGo(t *testing.T) {
	at := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	l := NewLog(func() time.Time { return at })
	l.Begin(0)
	for i := range int64(keepLeast + 5) {
		l.Add(Change{Revision: i + 1})
	}
	start, _ := l.Since(1)
	if start != 0 {
		t.Fatalf("young changes went: the log begins at %d", start)
	}
	at = at.Add(keepFor + time.Second)
	l.Add(Change{Revision: keepLeast + 6})
	if _, _, _, _, ok := l.Next(start); ok {
		t.Error("a cursor that fell behind is taken")
	}
	if _, ok := l.Since(6); ok {
		t.Error("the revision of a change that went is taken")
	}
	if cursor, ok := l.Since(7); !ok || cursor != 6 {
		t.Errorf("cursor %d, %v", cursor, ok)
	}
	if len(l.changes) != keepLeast {
		t.Errorf("%d changes are kept", len(l.changes))
	}
}

func TestMostChanges(t *testing.T) {
	at := time.Now()
	l := NewLog(func() time.Time { return at })
	for i := range int64(keepMost + 10) {
		l.Add(Change{Revision: i + 1})
	}
	if len(l.changes) != keepMost || len(l.times) != keepMost {
		t.Errorf("%d changes are kept", len(l.changes))
	}
}

func TestMoreIsClosedByTheNextChange(t *testing.T) {
	l := NewLog(time.Now)
	_, _, _, more, _ := l.Next(l.Now())
	select {
	case <-more:
		t.Fatal("closed without a change")
	default:
	}
	l.Add(Change{Revision: 1})
	select {
	case <-more:
	default:
		t.Error("not closed by a change")
	}
}

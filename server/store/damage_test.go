package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a disk may have lost ends the start with a sentence and the way out, within bounded time.
func TestADamagedStoreEndsWithASentence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sentence string
		damage         func(t *testing.T, member string)
	}{
		{"log missing", "member/wal is missing", func(t *testing.T, member string) {
			try(t, os.RemoveAll(filepath.Join(member, "wal")))
		}},
		{"log empty", "member/wal is missing", func(t *testing.T, member string) {
			try(t, os.Remove(wal(t, member)))
		}},
		{"log of no length", ".wal is empty", func(t *testing.T, member string) {
			try(t, os.Truncate(wal(t, member), 0))
		}},
		{"log cut", "is cut short: it ends with entry ", func(t *testing.T, member string) {
			try(t, os.Truncate(wal(t, member), 4<<10))
		}},
		{"database zeroed", "db cannot be read (invalid database)", func(t *testing.T, member string) {
			db := filepath.Join(member, "snap", "db")
			info, err := os.Stat(db)
			try(t, err)
			try(t, os.WriteFile(db, make([]byte, info.Size()), 0o600))
		}},
		{"database of no length", "db is empty", func(t *testing.T, member string) {
			try(t, os.Truncate(filepath.Join(member, "snap", "db"), 0))
		}},
		{"database cut", "db cannot be read (it is shorter than its ", func(t *testing.T, member string) {
			try(t, os.Truncate(filepath.Join(member, "snap", "db"), 8<<10))
		}},
		{"database missing", "db is missing", func(t *testing.T, member string) {
			try(t, os.Remove(filepath.Join(member, "snap", "db")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, notes, _ := openNotesWith(t, Options{DataDir: dir, UnsafeNoFsync: true})
			for i := range 3000 { // more than one snapshot
				must(notes.Create(t.Context(), fmt.Sprint(i), note{Text: strings.Repeat("x", 100)}))(t)
			}
			closeStore(t, s)
			c.damage(t, filepath.Join(dir, etcdName, "member"))
			began := time.Now()
			damaged, err := Open(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true, limits: limits{startLimit: 5 * time.Second}}, NewCollection[note]("notes", false))
			if err == nil {
				_ = damaged.Close()
				t.Fatal("it opened")
			}
			t.Log(time.Since(began).Round(time.Millisecond), err)
			if !strings.Contains(err.Error(), c.sentence) || !strings.Contains(err.Error(), "restore the whole data directory from a backup") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// wal is the newest file of the log.
func wal(t *testing.T, member string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all[len(all)-1]
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

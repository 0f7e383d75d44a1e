package backup

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// keeper has a clock that stands still.
func keeper(o *office, now *time.Time, keep int) *Keeper {
	k := &Keeper{Schedule: Schedule{Dir: filepath.Join(o.TempDir(), "backups"), Every: time.Hour, Keep: keep}, Server: o.Server, Logger: slog.New(slog.DiscardHandler)}
	k.Server.Now = func() time.Time { return *now }
	return k
}

func (k *Keeper) names(t *testing.T) (names []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(k.Dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

// TestRetention: the newest stay, and what is not a backup of ours does.
func TestRetention(t *testing.T) {
	t.Parallel()
	o, now := newOffice(t), noon
	k := keeper(o, &now, 2)
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.txt", "drover-old.tar", "drover-20261101T120000Z.tar.age.partial", "drover-20261101T120000Z.tar.age", "drover-20261122T115900Z.tar.partial"} {
		if err := os.WriteFile(filepath.Join(k.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		k.once(t.Context())
		now = now.Add(time.Hour)
	}
	want := []string{"drover-20261122T115900Z.tar.partial", "drover-20261122T130000Z.tar", "drover-20261122T140000Z.tar", "drover-old.tar", "notes.txt"}
	if diff := cmp.Diff(want, k.names(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if s := k.Status(); !s.Well || s.Succeeded != 3 || s.Files[0].Name != "drover-20261122T140000Z.tar" {
		t.Errorf("status %+v", s)
	}
	now = now.Add(2 * time.Hour)
	if s := k.Status(); s.Well {
		t.Errorf("an old backup is well: %+v", s)
	}
}

// TestDue: the newest file says when the next one is due, and a failure has it tried again soon.
func TestDue(t *testing.T) {
	t.Parallel()
	o, now := newOffice(t), noon
	k := keeper(o, &now, 2)
	due := func(what string, want time.Duration) {
		t.Helper()
		if got := k.next().Sub(now); got != want {
			t.Errorf("%s: due in %s, want %s", what, got, want)
		}
	}
	due("none was made", 0)
	k.once(t.Context())
	due("one was just made", time.Hour)
	now = now.Add(45 * time.Minute)
	due("one was made, and the server started again", 15*time.Minute)
	now = now.Add(-24 * time.Hour)
	due("the clock went back", time.Hour)
	now = noon.Add(2 * time.Hour)
	k.Server.Store = broken{errors.New("the disk is gone")}
	k.once(t.Context())
	due("the last one failed", 5*time.Minute)
	if s := k.Status(); s.Well || !strings.Contains(s.Failure, "the disk is gone") || !s.FailedAt.Equal(now) || len(s.Files) != 1 {
		t.Errorf("status %+v", s)
	}
}

// TestSchedule: what cannot be kept is refused.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Schedule{
		"more often than once a minute": {Dir: "x", Every: time.Second, Keep: 1},
		"at least 1 is":                 {Dir: "x", Every: time.Hour},
		"have to be encrypted":          {Dir: "x", Every: time.Hour, Keep: 1, Keys: &Keys{}},
		"backups in a bucket have to":   {Dir: "x", Every: time.Hour, Keep: 1, Offsite: &Offsite{}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (Schedule{}).Check(); err != nil {
		t.Error(err)
	}
}

package backups

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/pki"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/s3server"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// office is a data directory with a store that is open.
type office struct {
	*testing.T
	dir   string
	state *state.State
	backup.Server
}

func openStore(t *testing.T, dir string) *state.State {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newOffice has one cluster, with a token in it.
func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, dir: filepath.Join(t.TempDir(), "data")}
	o.state = openStore(t, o.dir)
	authority, err := pki.Open(filepath.Join(o.dir, "tls"), func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	o.Server = backup.Server{
		Store: o.state.Store, Installation: func() string { return "an installation" }, ServerURL: func() string { return "https://drover.lan:8443" },
		Authority: authority.Checksum, Now: func() time.Time { return noon },
	}
	o.cluster("harbour")
	return o
}

func (o *office) cluster(name string) {
	o.Helper()
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: "c-m-" + name}
	if _, err := o.state.Clusters.Create(o.Context(), "fleet-default/"+name, c); err != nil {
		o.Fatal(err)
	}
}

func (o *office) keys() *backup.Keys {
	k := backup.KeysIn(o.dir, "")
	return &k
}

func (o *office) restore(from string, change func(*backup.Restore)) (backup.Restored, error) {
	o.Helper()
	r := backup.Restore{From: from, DataDir: filepath.Join(o.TempDir(), "restored"), Now: func() time.Time { return noon.Add(time.Hour) }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&r)
	}
	return r.Run(o.Context())
}

func private(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// controller has a clock that stands still.
func controller(o *office, now *time.Time, keep int) *Controller {
	k := &Controller{Schedule: backup.Schedule{Dir: filepath.Join(o.TempDir(), "backups"), Every: time.Hour, Keep: keep}, Server: o.Server, Logger: slog.New(slog.DiscardHandler)}
	k.Server.Now = func() time.Time { return *now }
	return k
}

func (c *Controller) names(t *testing.T) (names []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(c.Dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

// TestRetention: the newest stay, and what is not a backup of ours does.
func TestRetention(t *testing.T) {
	t.Parallel()
	o, now := newOffice(t), noon
	k := controller(o, &now, 2)
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

// broken is a store that cannot be copied.
type broken struct{ err error }

func (b broken) WriteSnapshot(_ context.Context, begin func(size, revision int64) (io.Writer, error)) error {
	w, err := begin(1<<20, 7)
	if err == nil {
		_, err = w.Write(make([]byte, 1000))
	}
	return errors.Join(err, b.err)
}

func (broken) DataKey() string { return "0011223344556677" }

// TestDue: the newest file says when the next one is due, and a failure has it tried again soon.
func TestDue(t *testing.T) {
	t.Parallel()
	o, now := newOffice(t), noon
	k := controller(o, &now, 2)
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

// warehouse is a real S3 server with a bucket, and the file that describes it.
func warehouse(t *testing.T) (s *s3server.Server, file string) {
	t.Helper()
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: "../../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.MakeBucket("vault"); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"endpoint": s.Endpoint, "endpointCA": string(ca), "bucket": "vault", "region": "us-east-1", "folder": "drover", "bucketLookupType": "path", "accessKey": s3server.AccessKey, "secretKey": s3server.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, private(t, string(text))
}

// TestOffsite: the bucket gets each backup, and no more than are kept; one that is away is reported, and gets what it missed
// without another backup; and from there a server comes back.
func TestOffsite(t *testing.T) {
	t.Parallel()
	o, now := newOffice(t), noon
	s3, file := warehouse(t)
	identity := must(age.GenerateX25519Identity())(t)
	k := controller(o, &now, 2)
	k.Offsite = must(backup.ReadOffsite(file))(t)
	k.Seal, k.Keys = must(backup.NewSealing([]string{identity.Recipient().String()}, ""))(t), o.keys()
	other := s3.File("vault", "drover/notes.txt")
	if err := errors.Join(os.MkdirAll(filepath.Dir(other), 0o755), os.WriteFile(other, []byte("not ours"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		k.once(t.Context())
		now = now.Add(time.Hour)
	}
	inBucket := func() (names []string) {
		t.Helper()
		for _, e := range must(os.ReadDir(s3.File("vault", "drover")))(t) {
			names = append(names, e.Name())
		}
		return names
	}
	want := []string{"drover-20261122T130000Z.tar.age", "drover-20261122T140000Z.tar.age", "notes.txt"}
	if diff := cmp.Diff(want, inBucket()); diff != "" {
		t.Errorf("the bucket (-want +got):\n%s", diff)
	}
	if s := k.Status(); !s.Well || s.Offsite == nil || len(s.Offsite.Files) != 2 || !strings.Contains(s.Offsite.Place, "vault/drover at "+s3.Endpoint) {
		t.Errorf("status %+v", s)
	}

	away := s3.File("vault", "")
	if err := os.Rename(away, away+".away"); err != nil {
		t.Fatal(err)
	}
	k.once(t.Context())
	const newest = "drover-20261122T150000Z.tar.age"
	if s := k.Status(); s.Well || !strings.Contains(s.Failure, newest+" is whole in "+k.Dir+", and the bucket does not have it") || s.Files[0].Name != newest {
		t.Errorf("status without the bucket %+v", s)
	}
	if got := k.next().Sub(now); got != retry {
		t.Errorf("it is tried again in %s, want %s", got, retry)
	}
	if err := os.Rename(away+".away", away); err != nil {
		t.Fatal(err)
	}
	now = now.Add(retry)
	k.once(t.Context())
	if diff := cmp.Diff([]string{"drover-20261122T140000Z.tar.age", newest, "notes.txt"}, inBucket()); diff != "" {
		t.Errorf("the bucket (-want +got):\n%s", diff)
	}
	if s := k.Status(); !s.Well || s.Files[0].Name != newest {
		t.Errorf("status after it %+v", s)
	}

	// A server that starts again looks whether the bucket has the newest.
	again := controller(o, &now, 2)
	again.Schedule = k.Schedule
	if got := again.next().Sub(now); got != 0 {
		t.Errorf("the bucket is looked at in %s, want now", got)
	}
	again.once(t.Context())
	if got := again.next().Sub(now); got != time.Hour-retry || len(again.names(t)) != 2 {
		t.Errorf("the next is due in %s, files %v", got, again.names(t))
	}

	opening := func(r *backup.Restore) {
		r.Offsite, r.Opening = k.Offsite, backup.Opening{IdentityFile: private(t, identity.String())}
	}
	done, err := o.restore(backup.Newest, opening)
	if err != nil || done.Clusters != 1 {
		t.Fatalf("restored %+v, %v", done, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(done.DataDir), ".*fetching*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := o.restore("drover-20200101T000000Z.tar.age", opening); err == nil || !strings.Contains(err.Error(), "the newest are "+newest+", ") {
		t.Errorf("one that is not there: %v", err)
	}
	object := s3.File("vault", "drover/"+newest)
	whole := must(os.ReadFile(object))(t)
	if err := os.WriteFile(object, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := func(r *backup.Restore) { opening(r); r.DataDir = filepath.Join(o.TempDir(), "restored") }
	if _, err := o.restore(backup.Newest, damaged); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("half an object: %v", err)
	}
}

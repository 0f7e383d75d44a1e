package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/s3server"
)

// warehouse is a real S3 server with a bucket, and the file that describes it.
func warehouse(t *testing.T) (s *s3server.Server, file string) {
	t.Helper()
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: "../..", Dir: t.TempDir()})
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
	text, err := json.Marshal(offsiteFile{
		Endpoint: s.Endpoint, EndpointCA: string(ca), Bucket: "vault", Region: "us-east-1", Folder: "drover", BucketLookupType: "path", AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey,
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
	k := keeper(o, &now, 2)
	k.Offsite = must(ReadOffsite(file))(t)
	k.Seal, k.Keys = must(NewSealing([]string{identity.Recipient().String()}, ""))(t), o.keys()
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
	again := keeper(o, &now, 2)
	again.Schedule = k.Schedule
	if got := again.next().Sub(now); got != 0 {
		t.Errorf("the bucket is looked at in %s, want now", got)
	}
	again.once(t.Context())
	if got := again.next().Sub(now); got != time.Hour-retry || len(again.names(t)) != 2 {
		t.Errorf("the next is due in %s, files %v", got, again.names(t))
	}

	opening := func(r *Restore) {
		r.Offsite, r.Opening = k.Offsite, Opening{IdentityFile: private(t, identity.String())}
	}
	done, err := o.restore(Newest, opening)
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
	damaged := func(r *Restore) { opening(r); r.DataDir = filepath.Join(o.TempDir(), "restored") }
	if _, err := o.restore(Newest, damaged); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("half an object: %v", err)
	}
}

// TestReadOffsite: what is wrong with the file is named, and none of its values is.
func TestReadOffsite(t *testing.T) {
	t.Parallel()
	const good = "bucket: vault\naccessKey: AKIAVAULT\nsecretKey: hunter2\n"
	open := private(t, good)
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"others can read it", open, "has mode 0640"},
		{"a field that is not known", private(t, good+"secret: hunter2\n"), ":4: secret: "},
		{"no bucket", private(t, "accessKey: AKIAVAULT\nsecretKey: hunter2\n"), "there is none"},
		{"not a bucket", private(t, strings.Replace(good, "vault", "V/ault", 1)), "bucket: "},
		{"one key of two", private(t, strings.Replace(good, "secretKey: hunter2", "region: eu-1", 1)), "one key of two"},
		{"a folder above", private(t, good+"folder: a/../..\n"), "folder: "},
		{"no YAML", private(t, "bucket: [hunter2"), "1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadOffsite(c.path); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := ReadOffsite(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	o := must(ReadOffsite(private(t, good)))(t)
	if text := fmt.Sprintf("%v %+v %#v %s", o, o, o, o); strings.Contains(text, "hunter2") {
		t.Errorf("printed it is %s", text)
	}
}

package engine

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/restore"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/test/s3server"
)

const twoMembers = `
kubernetes_version: v1.30.5-rancher1-1
network: {plugin: none}
dns: {provider: none}
ingress: {provider: none}
monitoring: {provider: none}
nodes:
- {address: 10.0.0.1, user: rke, role: [etcd, controlplane, worker]}
- {address: 10.0.0.2, user: rke, role: [etcd]}
`

// archive is a snapshot's, whose data have a word in them.
func archive(t *testing.T, name, word string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"key", "meta"} {
			b, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			if err := b.Put([]byte(word), []byte(word)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for member, text := range map[string]string{"/backup/" + name: string(data) + string(sum[:]), "/etc/kubernetes/" + name + ".rkestate": "{}"} {
		into, err := w.Create(member)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := into.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// shells lets containers run their script, by busybox, on the snapshots that a stand-in has.
func shells(t *testing.T, e *dockerstandin.Engine) {
	for _, name := range []string{"etcd-checksum-checker", "etcd-download-backup"} {
		e.OnStart(name, func(c dockerstandin.Container) (int, string) {
			dir := t.TempDir()
			for file, is := range e.Files() {
				if filepath.Dir(file) == snapshots.Dir {
					if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(is.Contents), 0o600); err != nil {
						t.Error(err)
					}
				}
			}
			var args []string
			for _, arg := range c.Config.Entrypoint {
				args = append(args, strings.Replace(arg, snapshots.Dir, dir, 1))
			}
			cmd := exec.Command("busybox", args...)
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState == nil {
				t.Error(err)
			}
			for file := range e.Files() {
				if filepath.Dir(file) == snapshots.Dir {
					e.SetFile(file, nil)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
			}
			for _, entry := range left {
				text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
				if err != nil {
					t.Error(err)
				}
				e.SetFile(filepath.Join(snapshots.Dir, entry.Name()), &dockerstandin.File{Contents: string(text), Mode: 0o600})
			}
			return cmd.ProcessState.ExitCode(), string(out)
		})
	}
}

// members are hosts of etcd that answered.
func members(t *testing.T) (*yard, *run.Run, []*run.Host) {
	t.Helper()
	y := newYard(t, twoMembers)
	y.o.Buckets.TempDir = t.TempDir()
	r, err := restoreRun(y.o, y.work, snapshot.RestoreRequest{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if err := restore.Reach(t.Context(), r, snapshot.RestoreRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range y.hosts {
		e.AddImage(r.Work.Config.SystemImages.Alpine, dockerstandin.Image{})
		shells(t, e)
	}
	return y, r, r.With(config.RoleEtcd)
}

func (y *yard) archives(address string) map[string]string {
	all := map[string]string{}
	for file, is := range y.hosts[address].Files() {
		if filepath.Dir(file) == snapshots.Dir {
			all[filepath.Base(file)] = is.Contents
		}
	}
	return all
}

// harbour is a real S3 server with a bucket.
func harbour(t *testing.T) (*s3server.Server, *config.S3Backup) {
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
	if err := s.MakeBucket("harbour"); err != nil {
		t.Fatal(err)
	}
	return s, &config.S3Backup{Endpoint: s.Endpoint, BucketName: "harbour", Folder: "yard", Region: "us-east-1", CustomCA: string(ca),
		AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey}
}

func snapshotsOn(t *testing.T, r *run.Run, hosts []*run.Host, name string) []snapshots.Snapshot {
	t.Helper()
	var all []snapshots.Snapshot
	for _, h := range hosts {
		s, _, err := snapshot.Inspect(t.Context(), r, h, name)
		if err != nil {
			t.Fatal(err)
		}
		if s != nil {
			all = append(all, *s)
		}
	}
	return all
}

// A snapshot goes to the bucket, and from there to hosts that lost it; the keys come to no host.
func TestBucketAndBack(t *testing.T) {
	server, s3 := harbour(t)
	y, r, hosts := members(t)
	one := archive(t, "one", "word")
	y.hosts["10.0.0.2"].SetFile(snapshots.Dir+"/one.zip", &dockerstandin.File{Contents: one, Mode: 0o600})
	all := snapshotsOn(t, r, hosts, "one")
	if len(all) != 1 || all[0].Broken || !all[0].State {
		t.Fatalf("on the hosts is %+v", all)
	}
	if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, all); err != nil {
		t.Fatal(err)
	}
	if stored, err := os.ReadFile(server.File("harbour", "yard/one.zip")); err != nil || string(stored) != one {
		t.Errorf("stored are %d bytes, %v", len(stored), err)
	}
	b, err := inbucket.Open(s3, inbucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Free(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "has a snapshot of this name already") {
		t.Errorf("the same name again: %v", err)
	}

	other := archive(t, "one", "other")
	for name, tt := range map[string]struct {
		first, second string // what the hosts have
		want          map[string]string
		host          string
	}{
		"both lost it":     {"", "", map[string]string{"one.zip": one}, "10.0.0.1"},
		"one has it":       {"", one, map[string]string{}, "10.0.0.2"},
		"one has another":  {other, "", map[string]string{"one.zip": other}, "10.0.0.2"},
		"both have others": {other, other, map[string]string{"one.zip": one, "one.zip.before": other}, "10.0.0.1"},
		"one is cut off":   {other[:300], other, map[string]string{"one.zip": one, "one.zip.before": other[:300]}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			y, r, hosts := members(t)
			for address, contents := range map[string]string{"10.0.0.1": tt.first, "10.0.0.2": tt.second} {
				if contents != "" {
					y.hosts[address].SetFile(snapshots.Dir+"/one.zip", &dockerstandin.File{Contents: contents, Mode: 0o600})
				}
			}
			sum, err := snapshot.Download(t.Context(), r, hosts, snapshot.RestoreRequest{Name: "one", S3: s3})
			if err != nil || sum != all[0].Sum {
				t.Fatalf("%s, %v", sum, err)
			}
			var has []string
			for _, s := range snapshotsOn(t, r, hosts, "one") {
				if s.Sum == sum {
					has = append(has, s.Host)
				}
			}
			if !slices.Equal(has, []string{tt.host}) {
				t.Errorf("it is on %v, want %s", has, tt.host)
			}
			if is := y.archives("10.0.0.1"); len(is) != len(tt.want) || is["one.zip"] != tt.want["one.zip"] || is["one.zip.before"] != tt.want["one.zip.before"] {
				t.Errorf("the first host has %d files", len(is))
			}
			for address, e := range y.hosts {
				for _, request := range e.Requests() {
					for _, secret := range []string{s3.SecretKey, s3.AccessKey} {
						if strings.Contains(request.Body, secret) || strings.Contains(request.Body, base64.StdEncoding.EncodeToString([]byte(secret))) {
							t.Errorf("host %s got a key: %s %s", address, request.Method, request.Path)
						}
					}
				}
			}
		})
	}
}

// What is wrong with a bucket or with what is in it leaves the hosts as they are.
func TestBucketFaults(t *testing.T) {
	server, s3 := harbour(t)
	y, r, hosts := members(t)
	good, word := archive(t, "one", "word"), archive(t, "two", "word")
	y.hosts["10.0.0.1"].SetFile(snapshots.Dir+"/one.zip", &dockerstandin.File{Contents: good, Mode: 0o600})
	all := snapshotsOn(t, r, hosts, "one")
	if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, all); err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{"half.zip": good[:len(good)/2], "renamed.zip": word, "text.zip": "text"} {
		if err := os.WriteFile(server.File("harbour", "yard/"+key), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"half": "cannot be opened", "renamed": "has to get its name back", "text": "cannot be opened", "none": "has no snapshot none; there are half, one, renamed, text",
	} {
		if _, err := snapshot.Download(t.Context(), r, hosts, snapshot.RestoreRequest{Name: name, S3: s3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if is := y.archives("10.0.0.1"); len(is) != 1 || is["one.zip"] != good || len(y.archives("10.0.0.2")) != 0 {
		t.Errorf("the hosts have %d and %d files", len(is), len(y.archives("10.0.0.2")))
	}

	// The host's archive is not what it was when it was looked at.
	y.hosts["10.0.0.1"].SetFile(snapshots.Dir+"/one.zip", &dockerstandin.File{Contents: archive(t, "one", "changed"), Mode: 0o600})
	if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, all); err == nil || !strings.Contains(err.Error(), "other data than it has there") {
		t.Errorf("a changed archive: %v", err)
	}
	s3.SecretKey = "hunter3"
	err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, snapshotsOn(t, r, hosts, "one"))
	if err == nil || !strings.Contains(err.Error(), "snapshot one is on 1 hosts, but not in the bucket: bucket harbour/yard at "+s3.Endpoint) || strings.Contains(err.Error(), s3.SecretKey) {
		t.Errorf("a wrong key: %v", err)
	}
	if left, err := os.ReadDir(r.Buckets.TempDir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Of what is taken again and again, the newest are kept.
func TestBucketRetention(t *testing.T) {
	server, s3 := harbour(t)
	y, r, hosts := members(t)
	r.Work.Config = snapshot.WithBucket(r.Work.Config, s3)
	r.Work.Config.Services.Etcd.BackupConfig.Retention = 2
	var kept []string
	for i, name := range []string{"mine", "c-a-rs-1", "c-b-rs-1", "c-a-rs-2", "c-a-rs-3"} {
		y.hosts["10.0.0.1"].SetFile(snapshots.Dir+"/"+name+".zip", &dockerstandin.File{Contents: archive(t, name, name), Mode: 0o600})
		if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: name, S3: s3}, snapshotsOn(t, r, hosts, name)); err != nil {
			t.Fatal(err)
		}
		at := noon.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(server.File("harbour", "yard/"+name+".zip"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	b, err := inbucket.Open(s3, inbucket.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	left, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range left {
		kept = append(kept, o.Name)
	}
	if want := []string{"c-a-rs-2.zip", "c-a-rs-3.zip", "c-b-rs-1.zip", "mine.zip"}; !slices.Equal(kept, want) {
		t.Errorf("kept are %v, want %v", kept, want)
	}
}

package onhost_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// TestCarry copies one file, as it is, and leaves no container on either host.
func TestCarry(t *testing.T) {
	from, a := open(t)
	to, b := open(t)
	d := onhost.Directory{OnHost: "/opt/rke/etcd-snapshots", Path: "/opt/rke/etcd-snapshots", Image: tools}
	one := dockerstandin.File{Contents: "data", Mode: 0o600, UID: 7, Changed: noon}
	from.SetFile("/opt/rke/etcd-snapshots/one", &one)
	from.SetFile("/opt/rke/etcd-snapshots/one.zip", &dockerstandin.File{Contents: "archive", Mode: 0o600})
	to.SetFile("/opt/rke/etcd-snapshots/two", &dockerstandin.File{Contents: "theirs", Mode: 0o600})
	if err := a.Carry(t.Context(), b, d, "one"); err != nil {
		t.Fatal(err)
	}
	want := map[string]dockerstandin.File{"/opt/rke/etcd-snapshots/one": one, "/opt/rke/etcd-snapshots/two": {Contents: "theirs", Mode: 0o600}}
	if diff := cmp.Diff(want, to.Files(), sameTime); diff != "" {
		t.Error(diff)
	}
	if err := a.Carry(t.Context(), b, d, "gone"); err == nil || !strings.Contains(err.Error(), "copy gone of") {
		t.Errorf("a file that is not there: %v", err)
	}
	if left := len(from.Containers()) + len(to.Containers()); left != 0 {
		t.Errorf("%d containers are left", left)
	}
}

// What a command leaves in its container is read only when it has ended well.
func TestFetch(t *testing.T) {
	e, h := open(t)
	e.SetFile("/tmp/out/state", &dockerstandin.File{Contents: "the state", Mode: 0o600})
	once := func(name string) onhost.Once {
		o := command(name)
		o.Process.Binds = []string{"/tmp/out:/out"}
		return o
	}
	e.OnStart("rke-good", func(dockerstandin.Container) (int, string) { return 0, "" })
	e.OnStart("rke-bad", func(dockerstandin.Container) (int, string) { return 1, "no such archive" })
	if text, err := h.Fetch(t.Context(), once("rke-good"), "/out/state", 100); err != nil || string(text) != "the state" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := h.Fetch(t.Context(), once("rke-bad"), "/out/state", 100); err == nil || !strings.Contains(err.Error(), "no such archive") {
		t.Errorf("after a failure: %v", err)
	}
	if _, err := h.Fetch(t.Context(), once("rke-good"), "/out/other", 100); err == nil {
		t.Error("a file that is not there is read")
	}
}

// TestCopy gets a file from a host and brings one there.
func TestCopy(t *testing.T) {
	e, h := open(t)
	d := onhost.Directory{OnHost: "/opt/rke/etcd-snapshots", Path: "/opt/rke/etcd-snapshots", Image: tools}
	e.SetFile("/opt/rke/etcd-snapshots/one.zip", &dockerstandin.File{Contents: "data", Mode: 0o600})
	err := h.CopyOut(t.Context(), d, "one.zip", func(r io.Reader, size int64) error {
		text, err := io.ReadAll(r)
		if string(text) != "data" || size != 4 {
			t.Errorf("%q, %d", text, size)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.CopyOut(t.Context(), d, "gone.zip", nil); err == nil || !strings.Contains(err.Error(), "copy gone.zip of /opt/rke/etcd-snapshots from host 10.0.0.1") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := h.CopyIn(t.Context(), d, "two.zip", strings.NewReader("more"), 4); err != nil {
		t.Fatal(err)
	}
	if is := e.Files()["/opt/rke/etcd-snapshots/two.zip"]; is.Contents != "more" || is.Mode != 0o600 {
		t.Errorf("on the host is %+v", is)
	}
	if err := h.CopyIn(t.Context(), d, "half.zip", strings.NewReader("more"), 5); err == nil {
		t.Error("half a file is taken for whole")
	}
	e.Fail(http.MethodPut, "/archive", 500, "no space left on device")
	if err := h.CopyIn(t.Context(), d, "three.zip", strings.NewReader("more"), 4); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a full disk: %v", err)
	}
	if left := e.Containers(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

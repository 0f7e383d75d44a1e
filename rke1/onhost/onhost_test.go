package onhost_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const tools = "rancher/rke-tools:v0.1.105"

func open(t *testing.T) (*dockerstandin.Engine, *onhost.Host) {
	t.Helper()
	e := dockerstandin.New(t)
	e.AddImage(tools, dockerstandin.Image{Pullable: true})
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	// The host's clock is an hour and 100 ms behind.
	start := time.Now()
	now := func() time.Time { return noon.Add(time.Since(start)) }
	e.SetInfo("SystemTime", noon.Add(-time.Hour-100*time.Millisecond).Format(time.RFC3339Nano))
	h, err := onhost.Open(t.Context(), "10.0.0.1", e.Socket, connect, now, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return e, h
}

func command(name string) onhost.Once {
	return onhost.Once{Process: nodeconfig.Process{Name: name, Image: tools, Args: []string{"true"}}}
}

func TestRun(t *testing.T) {
	e, h := open(t)
	e.OnStart("rke-good", func(dockerstandin.Container) (int, string) { return 0, "one\ntwo\n" })
	e.OnStart("rke-bad", func(dockerstandin.Container) (int, string) { return 7, "why\n" })

	out, err := h.Run(t.Context(), command("rke-good"))
	if err != nil || !slices.Equal(out, []string{"one", "two"}) {
		t.Errorf("%q, %v", out, err)
	}
	_, err = h.Run(t.Context(), command("rke-bad"))
	var failed *onhost.FailedError
	if !errors.As(err, &failed) || failed.Code != 7 || failed.Host != "10.0.0.1" || !strings.Contains(err.Error(), "why") {
		t.Errorf("got %v", err)
	}
	if left := e.Containers(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// The end of a container that an earlier run left does not count for this one.
func TestRunRemovesALeftoverFirst(t *testing.T) {
	e, h := open(t)
	e.AddImage(tools, dockerstandin.Image{})
	e.Run(t, "rke-once", tools, nil)
	var ran []int
	e.OnStart("rke-once", func(c dockerstandin.Container) (int, string) {
		ran = append(ran, c.Starts)
		return 0, ""
	})
	if _, err := h.Run(t.Context(), command("rke-once")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ran, []int{1}) {
		t.Errorf("starts of the container that ran: %v, want a new one's first", ran)
	}
}

func TestRunThatCannot(t *testing.T) {
	e, h := open(t)
	e.OnStart("rke-once", func(dockerstandin.Container) (int, string) { return 0, "" })
	for path, want := range map[string]string{
		"/images/create": "pull image", "/containers/create": "create it from image", "/start": "start it", "/wait": "wait for its end",
	} {
		e.AddImage(tools, dockerstandin.Image{Pullable: true})
		e.Fail(http.MethodPost, path, 500, "the disk is full")
		_, err := h.Run(t.Context(), command("rke-once"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("%s fails: %v, want %q", path, err, want)
		}
		if left := e.Containers(); len(left) != 0 {
			t.Errorf("%s fails: left over: %v", path, left)
		}
	}
}

func TestRunIsBounded(t *testing.T) {
	_, h := open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the operator stopped it"))
	if _, err := h.Run(ctx, command("rke-once")); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "the operator stopped it") {
		t.Errorf("got %v", err)
	}
}

var sameTime = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

var kubernetes = onhost.Directory{OnHost: "/opt/rke/etc/kubernetes", Path: "/etc/kubernetes", Image: tools}

func TestPut(t *testing.T) {
	e, h := open(t)
	e.SetFile("/opt/rke/etc/kubernetes/ssl/same.pem", &dockerstandin.File{Contents: "same\n", Mode: 0o600})
	e.SetFile("/opt/rke/etc/kubernetes/ssl/other.pem", &dockerstandin.File{Contents: "old", Mode: 0o600})
	e.SetFile("/opt/rke/etc/kubernetes/ssl/open.pem", &dockerstandin.File{Contents: "open", Mode: 0o644})
	e.SetFile("/opt/rke/etc/kubernetes/mine", &dockerstandin.File{Contents: "an operator's", Mode: 0o640})
	files := []onhost.File{
		{Path: "/etc/kubernetes/ssl/same.pem", Contents: []byte("same"), Mode: 0o600},
		{Path: "/etc/kubernetes/ssl/other.pem", Contents: []byte("new"), Mode: 0o600},
		{Path: "/etc/kubernetes/ssl/open.pem", Contents: []byte("open"), Mode: 0o600},
		{Path: "/etc/kubernetes/ssl/etcd.pem", Contents: []byte("etcd"), Mode: 0o600, UID: 52, GID: 53},
	}
	changed, there, err := h.Put(t.Context(), kubernetes, files)
	if err != nil {
		t.Fatal(err)
	}
	if f := there["/etc/kubernetes/ssl/other.pem"]; string(f.Contents) != "new" || len(there) != 5 {
		t.Errorf("there afterwards: %v", there)
	}
	want := []string{"/etc/kubernetes/ssl/etcd.pem", "/etc/kubernetes/ssl/open.pem", "/etc/kubernetes/ssl/other.pem"}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Error(diff)
	}
	changes := noon.Add(-time.Hour)
	onHost := map[string]dockerstandin.File{
		"/opt/rke/etc/kubernetes/ssl/same.pem": {Contents: "same\n", Mode: 0o600}, "/opt/rke/etc/kubernetes/ssl/other.pem": {Contents: "new", Mode: 0o600, Changed: changes},
		"/opt/rke/etc/kubernetes/ssl/open.pem": {Contents: "open", Mode: 0o600, Changed: changes}, "/opt/rke/etc/kubernetes/mine": {Contents: "an operator's", Mode: 0o640},
		"/opt/rke/etc/kubernetes/ssl/etcd.pem": {Contents: "etcd", Mode: 0o600, UID: 52, GID: 53, Changed: changes},
	}
	if diff := cmp.Diff(onHost, e.Files(), sameTime); diff != "" {
		t.Error(diff)
	}
	e.Requests()
	changed, _, err = h.Put(t.Context(), kubernetes, files)
	if err != nil || len(changed) != 0 {
		t.Errorf("a second time: %v, %v", changed, err)
	}
	for _, r := range e.Requests() {
		if r.Method == http.MethodPut || strings.HasSuffix(r.Path, "/start") || strings.Contains(r.Body, "etcd") {
			t.Errorf("a second time: %s %s %s", r.Method, r.Path, r.Body)
		}
	}
	if left := e.Containers(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestPutThatCannot(t *testing.T) {
	e, h := open(t)
	good := []onhost.File{{Path: "/etc/kubernetes/a", Contents: []byte("sekrit"), Mode: 0o600}}
	e.Fail(http.MethodPut, "/archive", 500, "no space left on device")
	_, _, err := h.Put(t.Context(), kubernetes, good)
	for _, want := range []string{"10.0.0.1", "/opt/rke/etc/kubernetes", "no space left on device"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	_, _, err = h.Put(t.Context(), kubernetes, []onhost.File{{Path: "/etc/passwd", Contents: []byte("x")}})
	if err == nil || !strings.Contains(err.Error(), "/etc/passwd is not below /etc/kubernetes") {
		t.Errorf("a file elsewhere: %v", err)
	}
	if len(e.Files()) != 0 || len(e.Containers()) != 0 {
		t.Errorf("left over: %v, %v", e.Files(), e.Containers())
	}
}

func TestRead(t *testing.T) {
	e, h := open(t)
	files, err := h.Read(t.Context(), kubernetes)
	if err != nil || len(files) != 0 {
		t.Errorf("a directory that is not there: %v, %v", files, err)
	}
	e.SetFile("/opt/rke/etc/kubernetes/ssl/a.pem", &dockerstandin.File{Contents: "a", Mode: 0o600, Changed: noon})
	files, err = h.Read(t.Context(), kubernetes)
	want := map[string]onhost.File{"/etc/kubernetes/ssl/a.pem": {Path: "/etc/kubernetes/ssl/a.pem", Contents: []byte("a"), Mode: 0o600, Changed: noon}}
	if diff := cmp.Diff(want, files, sameTime); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAwait(t *testing.T) {
	e, h := open(t)
	e.AddImage(tools, dockerstandin.Image{})
	e.Run(t, "kubelet", tools, nil)
	e.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Log = "cannot read the kubeconfig\n" })
	good := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if good--; good < 0 {
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\nhealthz check failed", http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	check := onhost.Check{URL: s.URL + "/healthz", Container: "kubelet", Tries: 3, Pause: time.Millisecond}
	var seen []string
	each := func(n int, err error) { seen = append(seen, fmt.Sprint(n)) }

	err := h.Await(t.Context(), check, each)
	var unhealthy *onhost.UnhealthyError
	if !errors.As(err, &unhealthy) || len(seen) != 3 {
		t.Fatalf("after %v: %v", seen, err)
	}
	for _, want := range []string{"kubelet on host 10.0.0.1", s.URL, "500", "etcd failed", "cannot read the kubeconfig"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "ping ok") {
		t.Errorf("%v says what works", err)
	}
	good = 1
	if err := h.Await(t.Context(), check, each); err != nil {
		t.Errorf("a server that works: %v", err)
	}
	check.TLS = &tls.Config{}
	if err := h.Await(t.Context(), check, each); err == nil {
		t.Error("a server of an unknown authority counts as working where its certificate is checked")
	}
}

// A host that is down is dialled once, and named once with the cause; one that was there is dialled again.
func TestAHostThatIsDown(t *testing.T) {
	for says, cause := range map[string]error{
		"host 10.0.0.1 cannot be reached: dial tcp 10.0.0.1:22: no route to host": errors.New("dial tcp 10.0.0.1:22: no route to host"),
		"host 10.0.0.1 cannot be reached: connect: no route to host":              fmt.Errorf("dial: %w", &dial.LoginError{Host: "10.0.0.1", Err: errors.New("connect: no route to host")}),
	} {
		dials := 0
		_, err := onhost.Open(t.Context(), "10.0.0.1", "", func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, cause
		}, time.Now, slog.New(slog.DiscardHandler))
		if away, ok := errors.AsType[*onhost.UnreachableError](err); !ok || away.Host != "10.0.0.1" || err.Error() != says || dials != 1 {
			t.Errorf("%d dials: %v", dials, err)
		}
	}
	e := dockerstandin.New(t)
	h, err := onhost.Open(t.Context(), "10.0.0.1", e.Socket, new(net.Dialer).DialContext, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	e.Stop()
	if _, err := h.Docker.Info(t.Context()); err == nil {
		t.Error("a host that went away answers")
	}
	e.Listen(t)
	if _, err := h.Docker.Info(t.Context()); err != nil {
		t.Errorf("a host that came back: %v", err)
	}
}

package native_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestFileOfASnapshot is for administrators alone, comes from whichever host has it, and is in the log with who took it.
func TestFileOfASnapshot(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const path, first, second = "/v1-drover/clusters/fleet-default/harbour/snapshots/one/file", "custom-000000000001", "custom-000000000002"
	for _, machine := range []string{first, second} {
		s := records.Snapshot{
			Cluster: "fleet-default/harbour", Machine: machine, File: "/d/one", Size: 10, SHA256: "5a", Created: apibed.Start, Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"},
		}
		if _, err := b.State.Snapshots.Create(t.Context(), s.Key(), s); err != nil {
			t.Fatal(err)
		}
	}
	asked := ""
	there := map[string]string{}
	b.AskFor = func(_ context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error) {
		name := strings.TrimPrefix(string(subject.Machine()), "fleet-default/")
		if there[name] == "" {
			return nil, errors.New("no tunnel")
		}
		asked = name + " " + path
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header = header.Clone()
		w := httptest.NewRecorder()
		w.Header().Set("ETag", `"t"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(there[name]))
		return w.Result(), nil
	}
	for _, c := range []struct {
		name, token string
		want        int
	}{{"nobody", "", 401}, {"a user", b.User, 404}, {"a token of the cluster", b.Token("user-admin", records.Token{ClusterID: "c-m-h4rb0r55"}), 401}} {
		there[first] = "0123456789"
		if r := b.Request("GET", path, c.token, ""); r.Status != c.want || strings.Contains(string(r.Raw), "0123") {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Raw)
		}
	}
	if asked != "" || strings.Contains(b.Logs.String(), "snapshot handed out") {
		t.Errorf("%s was asked for somebody who may not", asked)
	}

	r := b.Get(path)
	if r.Status != 200 || string(r.Raw) != "0123456789" || asked != first+" /v1/snapshot?name=one&runtime=k3s" {
		t.Errorf("%d %s by %s", r.Status, r.Raw, asked)
	}
	for name, want := range map[string]string{
		"Content-Length": "10", "X-Drover-Machine": first, "X-Drover-Sha256": "5a", "ETag": `"` + first + `.t"`, "X-Drover-Kubernetes-Version": "v1.34.4+k3s1",
		"X-Drover-Created": apibed.Start.Format(time.RFC3339), "Content-Disposition": `attachment; filename="one"`, "Cache-Control": "no-store",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{"snapshot handed out with all Secrets of the cluster", "cluster=fleet-default/harbour", "user=user-admin", "token=token-admin", "source=192.0.2.1", "machine=" + first, "bytes=10"} {
		if !strings.Contains(b.Logs.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for _, c := range []struct {
		name, span, tag string
		status          int
		body            string
	}{
		{"the rest", "bytes=7-", `"` + first + `.t"`, 206, "789"},
		{"of another file", "bytes=7-", `"` + first + `.x"`, 200, "0123456789"},
		{"without a tag", "bytes=7-", "", 200, "0123456789"},
		{"the end", "bytes=-3", `"` + first + `.t"`, 200, "0123456789"},
		{"two", "bytes=1-2,5-6", `"` + first + `.t"`, 200, "0123456789"},
		{"behind the end", "bytes=10-", `"` + first + `.t"`, 200, "0123456789"},
		{"far behind", "bytes=99999999999999999999-", `"` + first + `.t"`, 200, "0123456789"},
	} {
		r := b.Request("GET", path, b.Admin, "", "Range", c.span, "If-Range", c.tag)
		if r.Status != c.status || string(r.Raw) != c.body {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Raw)
		}
		if span := r.Header.Get("Content-Range"); c.status == 206 && span != "bytes 7-9/10" {
			t.Errorf("%s: %s", c.name, span)
		}
	}
	if r := b.Request("HEAD", path, b.Admin, ""); r.Status != 200 || len(r.Raw) != 0 || r.Header.Get("Content-Length") != "10" {
		t.Errorf("HEAD: %d, %d bytes", r.Status, len(r.Raw))
	}

	there[first], there[second] = "", "abcdefghij"
	if r := b.Get(path); r.Status != 200 || string(r.Raw) != "abcdefghij" || r.Header.Get("X-Drover-Machine") != second {
		t.Errorf("the second host: %d %s", r.Status, r.Raw)
	}
	if r := b.Get(path + "?machine=" + first); r.Status != 503 || !strings.Contains(r.Text("message"), "its host has not been connected since 2026-01-01T00:00:00Z") {
		t.Errorf("the one that is away: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/v1-drover/clusters/fleet-default/harbour/snapshots/none/file"); r.Status != 404 || !strings.Contains(r.Text("message"), "drover snapshots ls harbour") {
		t.Errorf("no such: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/v1-drover/clusters/fleet-default/none/snapshots/one/file"); r.Status != 404 {
		t.Errorf("no cluster: %d %s", r.Status, r.Raw)
	}
	b.Want(405, "POST", path, "{}")
}

// TestFileOfASnapshotOfRKE1 stays where it is, and people hear where that is.
func TestFileOfASnapshotOfRKE1(t *testing.T) {
	b := apibed.New(t)
	storeQuarry(b)
	kept, err := b.State.RKEStates.Modify(t.Context(), "fleet-default/quarry", func(r records.RKEState) (records.RKEState, error) {
		r.Snapshots = slices.Clone(r.Snapshots)
		r.Snapshots[0].Hosts = []records.RKESnapshotOn{{Address: "192.0.2.7", Size: 10}}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	name := kept.Value.Snapshots[0].Name
	const of = "/v1-drover/clusters/fleet-default/quarry/snapshots/"
	if r := b.Get(of + name + "/file"); r.Status != 409 || !strings.Contains(r.Text("message"), "on host 192.0.2.7 as /opt/rke/etcd-snapshots/"+name+".zip") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Get(of + "none/file"); r.Status != 404 {
		t.Errorf("no such: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", of+name+"/file", b.User, ""); r.Status != 404 {
		t.Errorf("a user: %d %s", r.Status, r.Raw)
	}
}

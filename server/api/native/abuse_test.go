package native_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestAbuse sends what no client of ours does to the routes by which running clusters are changed and secrets leave the
// server. Each is refused with a sentence of a bounded length, and nothing is written.
func TestAbuse(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) {
		apibed.Active(c)
		c.Status.Version, c.Spec.KubernetesVersion = "v1.34.3+k3s1", "v1.34.3+k3s1"
	})
	b.AddOperation("op-1", func(o *operations.Operation) { o.Subject = "fleet-default/quay" })
	storeQuarry(b)
	const in = "/v1-drover/clusters/fleet-default/"
	refused := func(method, target, token, body, says string, header ...string) {
		t.Helper()
		revision := b.State.Store.Revision()
		r := b.Request(method, target, token, body, header...)
		message := r.Text("message")
		if r.Status < 400 || r.Status > 499 || !strings.Contains(message, " ") || !strings.Contains(message, says) || len(r.Raw) > 4_000 {
			t.Errorf("%s %.120s with %.120q: %d %.500s", method, target, body, r.Status, r.Raw)
		}
		if b.State.Store.Revision() != revision {
			t.Errorf("%s %.120s with %.120q: something was written", method, target, body)
		}
		if strings.Contains(string(r.Raw), "hush") {
			t.Errorf("%s %.120s with %.120q: a secret is in %.500s", method, target, body, r.Raw)
		}
	}
	routes := []struct {
		method, path string // below a cluster
		valid        string // a body that would be taken; empty for a route without one
	}{
		{"POST", "/upgrade", `{"version": "v1.34.4+k3s1"}`},
		{"POST", "/window/set", `{"window": "Sat 22:00-04:00 UTC"}`},
		{"POST", "/operations", `{"kind": "snapshot"}`},
		{"POST", "/export", `{"keep": true}`},
		{"GET", "/window", ""},
		{"GET", "/rehearsals", ""},
		{"POST", "/rehearsals/set", `{"every": "24h", "fleet": "spare"}`},
		{"GET", "/snapshots", ""},
	}
	for _, route := range routes {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "BREW"} {
			if method != route.method {
				refused(method, in+"harbour"+route.path, b.Admin, route.valid, "is not possible here")
			}
		}
		for _, token := range []string{"", "token-admin:wrong", b.User} {
			refused(route.method, in+"harbour"+route.path, token, route.valid, "")
		}
		for _, name := range []string{
			"nothing", "..", "%2e%2e", "..%2fharbour", "harbour%2f..%2fharbour", "harbour%00", "harbour%0a", "%FF", "HARBOUR", "harbour%20", strings.Repeat("h", 100_000),
		} {
			refused(route.method, in+name+route.path, b.Admin, route.valid, "")
		}
		refused(route.method, "/v1-drover/clusters/other/harbour"+route.path, b.Admin, route.valid, "")
		refused(route.method, "/v1-drover/clusters/fleet-default%2Fharbour/x"+route.path, b.Admin, route.valid, "")
		if route.valid == "" {
			continue
		}
		for _, body := range []string{
			"{", "[]", "7", "1e999", `"x"`, "true", "<a/>", "kind: snapshot", "\x00", "\xff\xfe", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 10_000),
			strings.TrimSuffix(route.valid, "}") + `, "color": "red"}`, strings.TrimSuffix(route.valid, "}"),
			route.valid + route.valid, route.valid + "}", route.valid + "]", route.valid + " x",
			route.valid + strings.Repeat(" ", 64<<10), `{"` + strings.Repeat("k", 60_000) + `": 1}`,
		} {
			refused("POST", in+"harbour"+route.path, b.Admin, body, "")
		}
		refused("POST", in+"harbour"+route.path, b.Admin, route.valid+strings.Repeat(" ", 1<<20), "is longer than the 65536 bytes allowed")
		refused("POST", in+"harbour"+route.path, b.Admin, "kind=snapshot&version=v1.34.4%2Bk3s1", "", "Content-Type", "application/x-www-form-urlencoded")
		refused("POST", in+"harbour"+route.path, b.Admin, "--x\r\n\r\n{}\r\n--x--", "", "Content-Type", "multipart/form-data; boundary=x")
	}
	for _, flag := range []string{"dryRun", "queue", "replace", "noSnapshot", "now", "noRestart", "noDrain"} {
		for _, path := range []string{"/upgrade", "/operations"} {
			refused("POST", in+"harbour"+path+"?"+flag+"=1", b.Admin, routes[0].valid, "is neither true nor false")
			refused("POST", in+"harbour"+path+"?"+flag+"="+strings.Repeat("t", 100_000), b.Admin, routes[0].valid, "is neither true nor false")
		}
	}
	for _, body := range []string{`{}`, `null`, `{"version": ""}`, `{"version": 7}`, `{"version": ["v1.34.4+k3s1"]}`, `{"version": "latest"}`, `{"version": "v99999999999999999999.1.1+k3s1"}`,
		`{"version": "v1.34.4+rke2r1"}`, `{"version": "v1.34.4+k3s1; reboot"}`, `{"version": "../../v1.34.4+k3s1"}`, `{"version": "` + strings.Repeat("v", 60_000) + `"}`,
		`{"version": "v1.34.4+k3s1", "accept": "disk-space"}`, `{"version": "v1.34.4+k3s1", "accept": ["everything"]}`,
		`{"version": "v1.34.4+k3s1", "accept": ["` + strings.Repeat(`x", "`, 10_000) + `x"]}`} {
		refused("POST", in+"harbour/upgrade", b.Admin, body, "")
	}
	for _, window := range []string{
		"25:00", "Sat 24:00-04:00 UTC", "Sat 22:00-25:00 UTC", "Sat 22:60-04:00 UTC", "Sat 22:00-22:00 UTC", "Sat -1:00-04:00 UTC", "Sat 99999999999999999999:00-04:00 UTC", "Sat 22:00-04:00 Mars/Olympus",
		"Sat 22:00-04:00 ../../etc/passwd", "Sat 22:00-04:00 /etc/localtime", "Sat 22:00-04:00 Local", "Someday 22:00-04:00 UTC", "Fri-Mon-Tue 22:00-04:00 UTC", "Sat 22:00-04:00", ";;;", strings.Repeat("Sat 22:00-04:00 UTC;", 3_000),
	} {
		refused("POST", in+"harbour/window/set", b.Admin, fmt.Sprintf(`{"window": %q}`, window), "")
	}
	for _, body := range []string{`{}`, `null`, `{"window": null}`, `{"window": 7}`, `{"window": ["Sat 22:00-04:00 UTC"]}`} {
		refused("POST", in+"harbour/window/set", b.Admin, body, "")
	}
	for _, body := range []string{`{}`, `{"keep": 1}`, `{"keep": "true"}`, `{"recipients": 7}`, `{"recipients": ["x"]}`} {
		refused("POST", in+"harbour/export", b.Admin, body, "") // it is not a cluster of RKE1
	}
	for _, id := range []string{"nothing", "op-2", "..", "%2e%2e", "fleet-default%2Fquay%2Fop-1", "op-1%00", strings.Repeat("o", 100_000)} {
		refused("POST", "/v1-drover/operations/"+id+"/hurry", b.Admin, "", "")
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
		refused(method, "/v1-drover/operations/op-1/hurry", b.Admin, "", "is not possible here")
	}
	for _, token := range []string{"", b.User} {
		refused("POST", "/v1-drover/operations/op-1/hurry", token, "", "")
	}
	for _, path := range []string{"/v1-drover/backup", "/v1-drover/backups"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			refused(method, path, b.Admin, "{}", "is not possible here")
		}
		for _, token := range []string{"", "token-admin:wrong", b.User, strings.Repeat("x7", 27)} {
			refused("GET", path, token, "", "")
		}
	}
	for _, limit := range []string{"0", "-1", "99999999999999999999", "1e3", "x", strings.Repeat("9", 100_000)} {
		refused("GET", in+"harbour/snapshots?limit="+limit, b.Admin, "", "is not a number from 1 to")
	}
	// A cluster's ID or another namespace is not its name, and a page that begins beyond all is empty.
	refused("GET", "/v1-drover/clusters/fleet-default/c-m-h4rb0r55/snapshots", b.Admin, "", "")
	if r := b.Want(http.StatusOK, "GET", in+"harbour/snapshots?continue="+strings.Repeat("%FF", 100), ""); len(r.Data()) != 0 {
		t.Errorf("%s", r.Raw)
	}
	// What would have been taken is, so that none of the above was refused for another reason.
	b.Want(http.StatusOK, "POST", in+"harbour/window/set", routes[1].valid)
	b.Want(http.StatusOK, "POST", in+"harbour/upgrade?dryRun=true", routes[0].valid)
	b.Want(http.StatusOK, "POST", in+"harbour/operations", routes[2].valid)
	b.Want(http.StatusOK, "POST", "/v1-drover/operations/op-1/hurry", "")
}

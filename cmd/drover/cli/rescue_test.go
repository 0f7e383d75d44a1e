package cli

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommandsOfRunningClusters: what upgrades, windows, hurried operations and snapshots send to the server, and what
// they print of its answer.
func TestCommandsOfRunningClusters(t *testing.T) {
	const (
		harbour = "/v1-drover/clusters/fleet-default/harbour"
		begun   = `{"type": "begun", "operation": {"id": "op-1", "kind": "snapshot", "state": "running", "title": "take a snapshot"}}`
		done    = "operation op-1: take a snapshot; `drover operations wait op-1` waits for its end\n"
	)
	for _, c := range []struct {
		args   string // words of which # stands for a space
		answer string
		status int    // of the answer; 0 for 200
		sent   string // the last request: method, path, query, body
		code   int
		out    string // a regular expression
		errs   string // a part of it
	}{
		{args: "clusters upgrade harbour", code: 2, errs: "to which version? --to VERSION; `drover versions ls --cluster harbour` lists them"},
		{args: "clusters upgrade nothing --to v1", code: 4, errs: `there is no cluster "nothing"; there are: harbour`},
		{args: "clusters upgrade harbour --to v1 --queue --replace", code: 2, errs: "takes one of --queue and --replace, not both"},
		{
			args: "clusters upgrade harbour --to v1.34.4+k3s1 --accept disk-space --accept removed-apis --now --no-snapshot",
			answer: `{"type": "upgrade", "from": "v1.34.3+k3s1", "to": "v1.34.4+k3s1", "findings": [{"level": "warned", "code": "disk-space", "text": "pier is full", "wayOut": "make room"}],` +
				`"result": {"action": "configured", "operation": "op-1", "warnings": ["it has one member"]}}`,
			sent: "POST " + harbour + `/upgrade?noSnapshot=true&now=true {"version":"v1.34.4+k3s1","accept":["disk-space","removed-apis"]}`,
			out:  "^warned: pier is full \\(disk-space\\): make room\noperation op-1: upgrade cluster harbour from v1.34.3\\+k3s1 to v1.34.4\\+k3s1; `drover operations show op-1 -w` follows it\n$",
			errs: "warning: cluster harbour: it has one member",
		},
		{
			args: "clusters upgrade harbour --to v1.34.4+k3s1 --dry-run", answer: `{"from": "v1.34.3+k3s1", "to": "v1.34.4+k3s1", "findings": [], "result": {"action": "configured", "hosts": ["pier"]}}`,
			sent: "POST " + harbour + `/upgrade?dryRun=true {"version":"v1.34.4+k3s1"}`, out: `^cluster harbour would go from v1.34.3\+k3s1 to v1.34.4\+k3s1\n  pier\n`,
		},
		{
			args: "clusters upgrade harbour --to v1.33.1+k3s1", status: 422, code: 1,
			answer: `{"type": "error", "status": 422, "code": "InvalidState", "message": "no", "findings": [{"level": "refused", "code": "downgrade", "text": "it cannot go back"}]}`,
			sent:   "POST " + harbour + `/upgrade {"version":"v1.33.1+k3s1"}`, out: "^$", errs: "refused: it cannot go back (downgrade)\nerror: cluster harbour is not upgraded, and nothing was changed\n",
		},
		{args: "clusters upgrade harbour --to x", status: 422, code: 1, answer: `{"type": "error", "status": 422, "code": "X", "message": "x is not a version"}`, sent: "POST " + harbour + `/upgrade {"version":"x"}`, errs: "x is not a version"},

		{args: "clusters rehearsals harbour", answer: `{"every": "24h0m0s", "fleet": "spare", "next": "2026-01-01T00:00:00Z", "waits": "no machine is free"}`, sent: "GET " + harbour + "/rehearsals",
			out: `(?s)^schedule +every 24h0m0s on fleet spare\nnext +was due \S+ ago: no machine is free\n$`},
		{args: "clusters rehearsals harbour --every 24h --fleet spare", answer: `{"every": "24h0m0s", "fleet": "spare"}`, sent: "POST " + harbour + `/rehearsals/set {"every":"24h","fleet":"spare"}`, out: "every 24h0m0s on fleet spare"},
		{args: "clusters rehearsals harbour --off", answer: `{}`, sent: "POST " + harbour + `/rehearsals/set {"every":""}`, out: "schedule +none: "},
		{args: "clusters rehearsals harbour --every 24h", code: 2, errs: "--every and --fleet stand together"},
		{args: "clusters rehearsals harbour --every 24h --fleet spare --off", code: 2, errs: "takes one of --every and --off, not both"},
		{args: "clusters window harbour", answer: `{"window": "", "open": true}`, sent: "GET " + harbour + "/window", out: "^cluster harbour has no maintenance window: its machines may restart at any time\n$"},
		{args: "clusters window harbour", answer: `{"window": "daily 00:00-24:00 UTC", "open": true}`, sent: "GET " + harbour + "/window", out: "^daily 00:00-24:00 UTC: always open\n$"},
		{args: "clusters window harbour", answer: `{"window": "Sat 22:00-04:00 UTC", "open": true, "change": "2200-01-01T00:00:00Z"}`, sent: "GET " + harbour + "/window", out: `^Sat 22:00-04:00 UTC: open, closes in \d+h\d\dm\n$`},
		{
			args: "clusters window harbour --set Sat#22:00-04:00#Europe/Berlin", answer: `{"window": "Sat 22:00-04:00 Europe/Berlin", "open": false, "change": "2200-01-01T00:00:00Z"}`,
			sent: "POST " + harbour + `/window/set {"window":"Sat 22:00-04:00 Europe/Berlin"}`, out: `^Sat 22:00-04:00 Europe/Berlin: opens in \d+h\d\dm\n$`,
		},
		{args: "clusters window harbour --clear", answer: `{"window": "", "open": true}`, sent: "POST " + harbour + `/window/set {"window":""}`, out: "has no maintenance window"},
		{args: "clusters window harbour --set=", code: 2, errs: "--set needs a window; --clear takes it off"},
		{args: "clusters window harbour --set x --clear", code: 2, errs: "takes one of --clear and --set, not both"},
		{args: "clusters window harbour --set x", status: 422, code: 1, answer: `{"type": "error", "status": 422, "code": "X", "message": "\"x\" is not of the form"}`,
			sent: "POST " + harbour + `/window/set {"window":"x"}`, errs: `maintenance window of cluster harbour: "x" is not of the form`},

		{args: "operations hurry op-1", answer: `{"id": "op-1", "state": "running"}`, sent: "POST /v1-drover/operations/op-1/hurry", out: "^operation op-1 is running; `drover operations wait op-1` waits for its end\n$"},
		{args: "operations hurry", code: 2, errs: "ID"},
		{args: "operations hurry op-1", status: 409, code: 1, answer: `{"type": "error", "status": 409, "code": "X", "message": "operation op-1 does not wait for a window"}`,
			sent: "POST /v1-drover/operations/op-1/hurry", errs: "hurry an operation: operation op-1 does not wait for a window"},

		{
			args: "snapshots ls harbour",
			answer: `{"data": [{"name": "old", "created": "2020-01-01T00:00:00Z", "hosts": [{"address": "pier", "size": 2097152}], "restorable": false, "why": "its machine has gone", "scheduled": true},` +
				`{"name": "new", "created": "2021-01-01T00:00:00Z", "version": "v1.34.4+k3s1", "by": "op-1", "hosts": [{"address": "pier", "size": 1048576}, {"address": "quay"}], "restorable": true, "bucket": "s3://b"}]}`,
			sent: "GET " + harbour + "/snapshots", out: `(?s)^NAME +AGE +BY +VERSION +HOSTS +SIZE +BUCKET +RESTORE +REHEARSED\nnew +\S+ +op-1 +v1.34.4\+k3s1 +2 +1.0 MiB +s3://b +yes +-\nold +\S+ +schedule +- +pier +2.0 MiB +- +no: its machine has gone +-\n$`,
		},
		{args: "snapshots ls harbour", answer: `{"data": []}`, sent: "GET " + harbour + "/snapshots", errs: "`drover snapshots create harbour` takes one"},
		{args: "snapshots create harbour", answer: begun, sent: "POST " + harbour + `/operations {"kind":"snapshot"}`, out: "^" + regexp.QuoteMeta(done) + "$"},
		{args: "snapshots create harbour --name before --machine pier --queue", answer: begun,
			sent: "POST " + harbour + `/operations?queue=true {"kind":"snapshot","snapshot":"before","machines":["custom-1"]}`, out: "operation op-1"},
		{args: "snapshots create harbour --machine nothing", code: 4, errs: `there is no machine "nothing"`},
		{args: "snapshots create harbour --dry-run", answer: `{"lines": ["on pier", "on quay"]}`, sent: "POST " + harbour + `/operations?dryRun=true {"kind":"snapshot"}`, out: "^on pier\non quay\n$"},
		{args: "snapshots restore harbour one", code: 2, errs: "cluster harbour would go back to snapshot one, and what was written to it since would be gone; say --yes to do it, or --dry-run to see how"},
		{args: "snapshots restore harbour", code: 2, errs: "SNAPSHOT"},
		{args: "snapshots restore harbour one --dry-run", answer: `{"lines": ["stop pier"]}`, sent: "POST " + harbour + `/operations?dryRun=true {"kind":"restore","snapshot":"one"}`, out: "^stop pier\n$"},
		{args: "snapshots restore harbour one --yes", answer: begun, sent: "POST " + harbour + `/operations {"kind":"restore","snapshot":"one"}`, out: "operation op-1"},
		{args: "snapshots restore harbour /root/one --machine pier --mode all --no-snapshot --replace --yes", answer: begun,
			sent: "POST " + harbour + `/operations?noSnapshot=true&replace=true {"kind":"restore","snapshot":"/root/one","machines":["custom-1"],"mode":"all"}`, out: "operation op-1"},
		{args: "snapshots restore harbour one --yes", status: 422, code: 1, answer: `{"type": "error", "status": 422, "code": "X", "message": "cluster harbour has no snapshot \"one\""}`,
			sent: "POST " + harbour + `/operations {"kind":"restore","snapshot":"one"}`, errs: `restore: cluster harbour has no snapshot "one"`},
		{args: "clusters rotate certificates harbour --service etcd --service kubelet", answer: begun,
			sent: "POST " + harbour + `/operations {"kind":"rotate-certificates","services":["etcd","kubelet"]}`, out: "operation op-1"},
		{args: "clusters rotate encryption-keys harbour --queue", answer: begun, sent: "POST " + harbour + `/operations?queue=true {"kind":"rotate-encryption-keys"}`, out: "operation op-1"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var sent []string
			a := playServer(t, map[string]http.HandlerFunc{
				"GET /v1-drover/clusters": says(`{"data": [{"id": "c-m-1", "namespace": "fleet-default", "name": "harbour"}]}`),
				"GET /v1-drover/machines": says(`{"data": [{"id": "fleet-default/custom-1", "name": "custom-1", "nodeName": "pier", "clusterName": "harbour"}]}`),
				"/": func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					query := r.URL.Query()
					query.Del("limit") // how long a page is
					target := strings.TrimSuffix(r.URL.Path+"?"+query.Encode(), "?")
					mu.Lock()
					sent = append(sent, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, target, strings.TrimSpace(string(body)))))
					mu.Unlock()
					w.Header().Set("Content-Type", "application/json")
					if c.status != 0 {
						w.WriteHeader(c.status)
					}
					io.WriteString(w, c.answer)
				},
			})
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "#", " ")
			}
			code, out, errs := a.run(t.Context(), args...)
			if code != c.code || !regexp.MustCompile(c.out).MatchString(out) || !strings.Contains(errs, c.errs) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, c.code, out, errs)
			}
			var want []string
			if c.sent != "" {
				want = []string{c.sent}
			}
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}

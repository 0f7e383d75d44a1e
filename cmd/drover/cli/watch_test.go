package cli

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListsAreWatched: a line for each change, none for what looks the same.
func TestListsAreWatched(t *testing.T) {
	const snapshot = `{"name":"one","id":"s-1","created":"2026-11-01T10:00:00Z","hosts":[{"address":"192.0.2.7","size":1048576}],"restorable":true}` + "\n"
	for _, c := range []struct{ path, args, lines, want string }{
		{"/v1-drover/fleets", "fleets ls -w",
			`{"id":"f-1","name":"edge","machines":2,"states":{"Active":2}}` + "\n" + `{"id":"f-1","name":"edge","machines":2,"states":{"Active":2}}` + "\n" + `{"id":"f-1","name":"edge","machines":1,"states":{"Applying plan":1},"operation":{"id":"op-1","state":"running","done":1,"total":3}}` + "\n" + `{"id":"f-1","name":"edge","gone":true}` + "\n",
			"AT  edge  2 machines: 2 Active\nAT  edge  1 machines: 1 Applying plan; op-1 (running), 1/3 machines done\nAT  edge  gone: removed, or no longer yours to see\n"},
		{"/v1-drover/clusters/f/harbour/snapshots", "snapshots ls harbour -w",
			snapshot + snapshot + strings.Replace(snapshot, "true}", `false,"why":"it is of another version"}`, 1),
			"AT  one  on 192.0.2.7, 1.0 MiB, restorable: yes\nAT  one  on 192.0.2.7, 1.0 MiB, restorable: no: it is of another version\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var connections atomic.Int64
			a := playServer(t, map[string]http.HandlerFunc{
				"GET /v1-drover/clusters": func(w http.ResponseWriter, _ *http.Request) {
					io.WriteString(w, `{"data":[{"id":"c-1","name":"harbour","namespace":"f"}]}`)
				},
				"GET " + c.path: func(w http.ResponseWriter, r *http.Request) {
					if connections.Add(1) == 2 {
						interrupt()
						<-r.Context().Done()
						return
					}
					if q := r.URL.Query(); q.Get("follow") != "true" || q.Get("gone") != "true" {
						t.Errorf("asked for %s", r.URL.RawQuery)
					}
					io.WriteString(w, "\n"+c.lines)
				},
			})
			code, out, errs := a.run(ctx, strings.Fields(c.args)...)
			if diff := cmp.Diff(c.want, regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d`).ReplaceAllString(out, "AT")); diff != "" || code != 0 {
				t.Errorf("%d %s %s", code, diff, errs)
			}
		})
	}
}

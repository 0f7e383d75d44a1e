package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/cmd/drover/output"
)

const (
	firstEvent  = `{"id":"1/machine/f/custom-1","at":"2026-01-02T12:00:00Z","clusterName":"harbour","kind":"machine","name":"pier-1","from":"Applying plan","to":"Error","code":"PlanFailed","cause":"install failed"}`
	secondEvent = `{"id":"2/cluster/f/harbour","at":"2026-01-02T12:00:01Z","clusterName":"harbour","kind":"cluster","name":"harbour","to":"pending"}`
)

// clocks are what a test does not hold: the person's time zone.
var clocks = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

func TestEvents(t *testing.T) {
	queries := make(chan string, 10)
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters": says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"}]}`),
		"GET /v1-drover/events": func(w http.ResponseWriter, r *http.Request) {
			queries <- r.URL.RawQuery
			if r.URL.Query().Get("cluster") == "c-m-1" {
				io.WriteString(w, `{"data":[`+secondEvent+`]}`)
				return
			}
			io.WriteString(w, `{"data":[`+firstEvent+`,`+secondEvent+`]}`)
		},
	})
	table := `TIME CLUSTER OBJECT STATE CAUSE
AT harbour machine pier-1 Applying plan → Error PlanFailed: install failed
AT harbour cluster harbour pending -
`
	for _, c := range []struct {
		command, query string
		code           int
		out, errs      string
	}{
		{"events", "limit=1000", 0, table, ""},
		{"events --cluster harbour --since 1h", "cluster=c-m-1&since=1h0m0s&limit=1000", 0, "TIME CLUSTER OBJECT STATE CAUSE\nAT harbour cluster harbour pending -\n", ""},
		{"events --since 0s", "since=0s&limit=1000", 0, table, ""},
		{"events --since -1h", "", 2, "", "error: --since -1h0m0s is in the future; it is how far back to begin, as in 1h\n"},
		{"events --cluster quay", "", 4, "", "error: there is no cluster \"quay\"; there are: harbour\n"},
		{"events -o xml", "", 2, "", "error: -o xml: the formats are " + output.Usage + "\n"},
	} {
		t.Run(c.command, func(t *testing.T) {
			code, out, errs := a.run(t.Context(), strings.Fields(c.command)...)
			out = clocks.ReplaceAllString(regexp.MustCompile(` {2,}`).ReplaceAllString(out, " "), "AT")
			if diff := cmp.Diff(c.out, out) + cmp.Diff(c.errs, errs); diff != "" || code != c.code {
				t.Errorf("%d %s", code, diff)
			}
			query := ""
			select {
			case query = <-queries:
			default:
			}
			if strings.TrimPrefix(query, "&") != c.query {
				t.Errorf("asked for %q, want %q", query, c.query)
			}
		})
	}
	code, out, _ := a.run(t.Context(), "events", "-o", "json")
	var list []apitypes.Event
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list) != 2 || list[0].Code != "PlanFailed" {
		t.Errorf("%d %v %s", code, err, out)
	}
}

// A connection that is lost is made again, and each event is printed once.
func TestEventsWatch(t *testing.T) {
	for format, want := range map[string]string{
		"table": "AT  harbour  machine pier-1  Applying plan → Error  PlanFailed: install failed\nAT  harbour  cluster harbour  pending\n",
		"json":  `"id": "1/machine/f/custom-1",` + "\n" + `"id": "2/cluster/f/harbour",` + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var connections atomic.Int64
			a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/events": func(w http.ResponseWriter, r *http.Request) {
				asked := connections.Add(1)
				if q := r.URL.Query(); q.Get("follow") != "true" || !strings.HasPrefix(q.Get("since"), "1h0m") {
					t.Errorf("asked for %s", r.URL.RawQuery)
				}
				io.WriteString(w, "\n"+firstEvent+"\n")
				if asked == 2 {
					io.WriteString(w, secondEvent+"\n")
				}
				if asked == 3 {
					interrupt()
					<-r.Context().Done()
				}
			}})
			code, out, errs := a.run(ctx, "events", "-w", "--since", "1h", "-o", format)
			out = clocks.ReplaceAllString(out, "AT")
			if format == "json" {
				out = strings.Join(regexp.MustCompile(`"id": .*\n`).FindAllString(out, -1), "")
			}
			const again = "the server's answer ended (EOF); asked again\n"
			if diff := cmp.Diff(want, out) + cmp.Diff(again+"the server answers again\n"+again, errs); diff != "" || code != 0 {
				t.Errorf("%d %s", code, diff)
			}
		})
	}
	a := playServer(t, map[string]http.HandlerFunc{"/": refuses(http.StatusForbidden)})
	if code, _, errs := a.run(t.Context(), "events", "-w"); code != 3 || !strings.Contains(errs, "error: follow events: ") {
		t.Errorf("%d %s", code, errs)
	}
}

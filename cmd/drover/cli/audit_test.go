package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const auditAnswer = `{"server":"one:8443","level":1,"more":true,"torn":1,"lost":2,"data":[
 {"id":"a","time":"2026-09-01T10:00:00Z","server":"one:8443","username":"anna","user":"u-1","source":"192.0.2.1","verb":"proxy","kind":"cluster","object":"c-1","method":"GET","path":"/k8s/clusters/c-1/api","stage":"end","status":200,"durationMs":1500},
 {"id":"b","time":"2026-09-01T10:00:00Z","server":"one:8443","token":"token-1","source":"192.0.2.1","verb":"login","kind":"token","object":"u-1","status":401,"code":"Unauthorized"},
 {"id":"c","time":"2026-09-01T10:00:00Z","server":"one:8443","source":"192.0.2.1","verb":"login","kind":"token","stage":"sum","status":401,"count":7},
 {"id":"d","time":"2026-09-01T10:00:00Z","server":"one:8443","stage":"gap","count":3}]}`

// TestAudit: what people are shown, and what is asked for.
func TestAudit(t *testing.T) {
	asked := ""
	a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/audit": func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		io.WriteString(w, auditAnswer)
	}})
	code, out, errs := a.run(t.Context(), "audit", "--user", "an*", "--since", "24h", "--kind", "cluster", "--verb", "proxy", "--object", "c-1", "--limit", "4")
	if want := "kind=cluster&limit=4&object=c-1&since=24h0m0s&user=an%2A&verb=proxy"; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	for _, want := range []string{
		"SOURCE", "anna", "GET /k8s/clusters/c-1/api   200 after 1.5s", "token-1", "401 Unauthorized", "7 more with 401", "3 entries are lost",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: %q is not in\n%s", code, want, out)
		}
	}
	for _, want := range []string{"this is the log of server one:8443", "--limit shows more", "1 lines were skipped", "2 entries could not be written"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in\n%s", want, errs)
		}
	}
	if code, out, errs := a.run(t.Context(), "audit", "-o", "json"); code != 0 || !strings.Contains(errs, "2 entries could not be written") || !strings.HasPrefix(out, "[\n") || !strings.Contains(out, `"username": "anna"`) {
		t.Errorf("json: %d %s %s", code, out, errs)
	}
	for _, args := range [][]string{{"--since", "-1h"}, {"--limit", "0"}, {"one"}} {
		if code, _, errs := a.run(t.Context(), append([]string{"audit"}, args...)...); code != codeUsage {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	empty := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/audit": says(`{"server":"one:8443","level":0,"data":[]}`)})
	if code, out, errs := empty.run(t.Context(), "audit"); code != 0 || out != "" || !strings.Contains(errs, "no such entry") || !strings.Contains(errs, "audit-level is 0") {
		t.Errorf("empty: %d %s %s", code, out, errs)
	}
}

// TestAuditFollows: over a connection that is lost, and each entry once.
func TestAuditFollows(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	asked := []string{}
	a := playServer(t, map[string]http.HandlerFunc{"GET /v1-drover/audit": func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("since")+" "+r.URL.Query().Get("follow"))
		entry := `{"id":"%s","time":"2026-09-01T10:00:00Z","server":"one","username":"anna","verb":"remove","kind":"cluster","object":"%s","status":200}` + "\n\n"
		fmt.Fprintf(w, entry, "a", "first")
		if len(asked) == 1 {
			return
		}
		fmt.Fprintf(w, entry, "b", "second")
		http.NewResponseController(w).Flush()
		interrupt()
		<-r.Context().Done()
	}})
	code, out, errs := a.run(ctx, "audit", "-f")
	if code != 0 || strings.Count(out, "first") != 1 || len(asked) != 2 || asked[0] != " true" || !strings.HasSuffix(asked[1], "s true") {
		t.Errorf("%d %v\n%s%s", code, asked, out, errs)
	}
	denied := playServer(t, map[string]http.HandlerFunc{"/": refuses(403)})
	if code, _, errs := denied.run(t.Context(), "audit", "-f"); code != codeDenied {
		t.Errorf("denied: %d %s", code, errs)
	}
}

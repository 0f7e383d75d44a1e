package kubeproxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

const ours = "c-m-abcd2345"

// answering is a cluster that takes what is sent to it, and answers with a text.
type answering struct {
	code       int
	kind, text string
	got        []byte
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	a.got, err = io.ReadAll(r.Body)
	return &http.Response{StatusCode: a.code, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.text)), Request: r}, err
}

// TestNamespacesThatNameTheirProject: kubectl through the server makes namespaces in the projects in which its user may do that, and in no
// other.
func TestNamespacesThatNameTheirProject(t *testing.T) {
	const shop, bank = ours + ":p-shop1", ours + ":p-bank1"
	member := auth.Identity{UserID: "u-ann", Username: "ann", ClusterID: ours}
	find := func(kind roles.Kind, id string) (roles.Role, bool) { return roles.Builtin(kind, id) }
	member.Grants = roles.Of([]roles.Binding{
		{Role: "cluster-member", Subject: roles.Subject{User: roles.LocalUser("u-ann")}, ClusterID: ours},
		{Role: "project-owner", Subject: roles.Subject{User: roles.LocalUser("u-ann")}, ClusterID: ours, ProjectID: shop},
	}, find)
	body := func(project string) string {
		return `{"kind":"Namespace","metadata":{"name":"web","annotations":{"field.cattle.io/projectId":"` + project + `"}}}`
	}
	made := func(name string) string {
		return `{"kind":"Namespace","metadata":{"name":"` + name + `","uid":"uid-1"}}`
	}
	for _, c := range []struct {
		name, target, kind, body string
		answer                   answering
		want                     string // the project
		warned                   bool
	}{
		{name: "in a project of one's own", body: body(shop), answer: answering{code: 201, text: made("web")}, want: shop},
		{name: "in another", body: body(bank), answer: answering{code: 201, text: made("web")}, warned: true},
		{name: "in Default", body: body(ours + ":p-22222"), answer: answering{code: 201, text: made("web")}, warned: true},
		{name: "in System", body: body(ours + ":p-55555"), answer: answering{code: 201, text: made("web")}, warned: true},
		{name: "in one that there is not", body: body(ours + ":p-gone1"), answer: answering{code: 201, text: made("web")}},
		{name: "in one of another cluster", body: body("c-m-other222:p-shop1"), answer: answering{code: 201, text: made("web")}},
		{name: "of the name of the accounts' namespace", body: body(shop), answer: answering{code: 201, text: made("cattle-impersonation-system")}, want: ours + ":p-55555", warned: true},
		{name: "refused by the cluster", body: body(shop), answer: answering{code: 403, text: made("web")}},
		{name: "for a trial", target: "?dryRun=All", body: body(shop), answer: answering{code: 201, text: made("web")}},
		{name: "an answer of another form", body: body(shop), answer: answering{code: 201, kind: "application/vnd.kubernetes.protobuf", text: made("web")}},
		{name: "an answer without a UID", body: body(shop), answer: answering{code: 201, text: `{"metadata":{"name":"web"}}`}, warned: true},
		{name: "an answer that is none", body: body(shop), answer: answering{code: 201, text: `[`}, warned: true},
		{name: "an answer without end", body: body(shop), answer: answering{code: 201, text: made("web") + strings.Repeat(" ", maxNamespace)}, warned: true},
		{name: "a request that is too large", body: body(shop) + strings.Repeat(" ", maxNamespace), answer: answering{code: 201, text: made("web")}},
		{name: "a request that is none", body: "{", answer: answering{code: 201, text: made("web")}},
		{name: "another thing", target: "/web/secrets", body: body(shop), answer: answering{code: 201, text: made("web")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, &upstream{})
			p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return &c.answer }
			p.Membership = &state.Membership{State: p.State, Now: time.Now}
			_, err := p.State.Clusters.Modify(t.Context(), "fleet-default/harbour", func(cl records.Cluster) (records.Cluster, error) {
				cl.Projects = records.ClusterProjects{Default: ours + ":p-22222", System: ours + ":p-55555"}
				return cl, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{shop, bank} {
				if _, err := p.State.Projects.Create(t.Context(), records.ProjectKey(id), records.Project{ID: id, ClusterID: ours}); err != nil {
					t.Fatal(err)
				}
			}
			if c.answer.kind == "" {
				c.answer.kind = "application/json"
			}
			r := httptest.NewRequest(http.MethodPost, "https://drover/k8s/clusters/"+ours+"/api/v1/namespaces"+c.target, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			p.Serve(w, r, member)
			if w.Code != c.answer.code || w.Body.String() != c.answer.text || !bytes.Equal(c.answer.got, []byte(c.body)) {
				t.Errorf("status %d; the request or the answer did not pass as it was", w.Code)
			}
			name := "web"
			if strings.Contains(c.answer.text, "cattle-impersonation-system") {
				name = "cattle-impersonation-system"
			}
			if got := p.Membership.In(ours).Of("uid-1", name); got != c.want {
				t.Errorf("it is in %q, want %q", got, c.want)
			}
			if warning := w.Header().Get("Warning"); (warning != "") != c.warned {
				t.Errorf("warned %q", warning)
			}
		})
	}
}

// FuzzPeek: whatever a person or a cluster sends, it passes as it was.
func FuzzPeek(f *testing.F) {
	for _, text := range []string{"", "{", `{"metadata":{"name":"web","uid":"u","annotations":{"field.cattle.io/projectId":"c:p-1"}}}`, `{"metadata":[]}`, `{"metadata":{"annotations":null}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var n namespace
		got, err := io.ReadAll(peek(io.NopCloser(bytes.NewReader(text)), &n))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%q became %q: %v", text, got, err)
		}
	})
}

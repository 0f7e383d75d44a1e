package api

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/ui"
)

// hidden are the hidden fields of the form on a page that does something.
func (b *bench) hidden(page string) url.Values {
	b.t.Helper()
	_, form, ok := strings.Cut(page, `method="post" action="/dashboard/do/`)
	if !ok {
		b.t.Fatalf("there is no form on the page: %s", page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	given := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(form, -1) {
		given.Set(m[1], html.UnescapeString(m[2]))
	}
	if len(given.Get("key")) != 32 {
		b.t.Fatalf("the form has no key: %s", form)
	}
	return given
}

// post sends a form of a page, with what proves that it is of one.
func (b *bench) post(path, token string, form url.Values) result {
	b.t.Helper()
	return b.send(path+"?CSRF="+b.formToken(token), token, form)
}

// do looks at the page of an action and sends its form.
func (b *bench) do(path, token string, fields url.Values) result {
	b.t.Helper()
	ask := path
	if len(fields) > 0 {
		ask += "?" + fields.Encode()
	}
	r := b.look("do/"+ask, token)
	if r.status != http.StatusOK {
		return r
	}
	given := b.hidden(string(r.raw))
	maps.Copy(given, fields)
	return b.post("do/"+path, token, given)
}

// TestDeeds: what is done on the page is done, by who may.
func TestDeeds(t *testing.T) {
	b := newBench(t)
	cl, machines := harbour(b)
	b.addOperation("op-abcdefgh", nil)
	ann, _ := b.person("ann")
	of := func(name string) records.Cluster {
		d, _ := b.st.Clusters.Get("fleet-default/" + name)
		return d.Value
	}
	for _, c := range []struct {
		name, path string
		fields     url.Values
		to         string
		done       func() bool
	}{
		{"pause", "pause/fleet-default/harbour", nil, "/dashboard/clusters/fleet-default/harbour?done=pause", func() bool { return of("harbour").Paused != nil }},
		{"abort", "abort/op-abcdefgh", nil, "/dashboard/operations/op-abcdefgh?done=abort", func() bool {
			d, _ := b.st.OperationsByID.First("op-abcdefgh")
			return d.Value.Abort != nil
		}},
		{"labels", "labels/" + machines[0].Key(), url.Values{"labels": {"rack=b disk-"}}, "/dashboard/machines/" + machines[0].Key() + "?done=labels", func() bool {
			d, _ := b.st.Machines.Get(machines[0].Key())
			return d.Value.NodeLabels["rack"] == "b"
		}},
		{"disable", "disable-user/" + ann, nil, "/dashboard/users?done=disable-user", func() bool {
			d, _ := b.st.Users.Get(ann)
			return d.Value.Disabled
		}},
		{"role", "give-role", url.Values{"user": {ann}, "role": {"cluster-member"}, "cluster": {cl.ID}}, "/dashboard/bindings?done=give-role", func() bool {
			return len(b.st.BindingsBySubject.Find(roles.LocalUser(ann))) == 1
		}},
		{"setting", "set-setting/ui-brand", url.Values{"value": {"harbours"}}, "/dashboard/settings?done=set-setting", func() bool { return b.set.Get("ui-brand").Value == "harbours" }},
		{"remove a machine", "remove-machine/" + machines[1].Key(), url.Values{"sure": {machines[1].Name}, "force": {"on"}}, "/dashboard/machines?done=remove-machine", func() bool {
			d, ok := b.st.Machines.Get(machines[1].Key())
			return !ok || !d.Value.Deleting.IsZero()
		}},
		{"remove", "remove-cluster/fleet-default/quay", url.Values{"sure": {"quay"}}, "/dashboard/clusters?done=remove-cluster", func() bool { return !of("quay").Deleting.IsZero() || of("quay").Name == "" }},
	} {
		if c.done() {
			t.Fatalf("%s is done before", c.name)
		}
		if r := b.do(c.path, b.user, c.fields); r.status != http.StatusForbidden && r.status != http.StatusNotFound || c.done() {
			t.Errorf("%s by a user without rights: %d %s", c.name, r.status, r.raw)
		}
		if r := b.do(c.path, b.admin, c.fields); r.status != http.StatusSeeOther || r.header.Get("Location") != c.to {
			t.Errorf("%s: %d to %s: %s", c.name, r.status, r.header.Get("Location"), r.raw)
		}
		if !c.done() {
			t.Errorf("%s is not done", c.name)
		}
	}
	if r := b.look("users?done=disable-user", b.admin); !strings.Contains(string(r.raw), `<p id="notice" role="status">The user is disabled.</p>`) {
		t.Errorf("the page does not say what was done: %s", r.raw)
	}
	if r := b.look("users?done=%3Cb%3E", b.admin); strings.Contains(string(r.raw), "notice") {
		t.Error("an address has the page say something")
	}
	// What is refused is said of the field as the form calls it, and roles that cannot be given there are not proposed.
	if r := b.do("give-role", b.admin, url.Values{"user": {ann}, "role": {"cluster-member"}, "cluster": {"c-nowhere"}}); r.status < 400 || !strings.Contains(string(r.raw), "In cluster: ") || strings.Contains(string(r.raw), "ClusterId") {
		t.Errorf("a role in no cluster: %d %s", r.status, r.raw)
	}
	if page := string(b.look("do/give-role", b.admin).raw); !strings.Contains(page, `"cluster-member"`) || strings.Contains(page, `"project-member"`) {
		t.Errorf("the roles that are proposed: %s", page)
	}
	// A binding that was given is listed with its way out, and taken away by it.
	binding := b.st.BindingsBySubject.Find(roles.LocalUser(ann))[0].Value.ID
	page := string(b.look("bindings", b.admin).raw)
	if !strings.Contains(page, `href="/dashboard/do/take-role/`+url.PathEscape(binding)+`"`) || !strings.Contains(page, ">ann<") {
		t.Errorf("the binding is not on its page: %s", page)
	}
	if r := b.do("take-role/"+url.PathEscape(binding), b.admin, nil); r.status != http.StatusSeeOther || len(b.st.BindingsBySubject.Find(roles.LocalUser(ann))) != 0 {
		t.Errorf("take a role: %d %s", r.status, r.raw)
	}
}

// TestDeedOnce: a button that is pressed twice does it once, and both get the same answer.
func TestDeedOnce(t *testing.T) {
	b := newBench(t)
	fields := url.Values{"username": {"ben"}, "password": {"a long password of ben"}}
	form := b.hidden(string(b.look("do/new-user", b.admin).raw))
	maps.Copy(form, fields)
	var all sync.WaitGroup
	answers := make([]result, 8)
	for i := range answers {
		all.Go(func() { answers[i] = b.post("do/new-user", b.admin, form) })
	}
	all.Wait()
	for _, r := range answers {
		if r.status != http.StatusSeeOther {
			t.Errorf("%d: %s", r.status, r.raw)
		}
	}
	made := 0
	for _, d := range b.st.Users.List() {
		if d.Value.Username == "ben" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d users were made", made)
	}
	// What is shown once is shown to the first alone.
	form = b.hidden(string(b.look("do/new-token", b.admin).raw))
	first, second := b.post("do/new-token", b.admin, form), b.post("do/new-token", b.admin, form)
	if !strings.Contains(string(first.raw), "token-") || second.status != http.StatusConflict || len(regexp.MustCompile(`token-\w+:\w+`).FindAll(second.raw, -1)) != 0 {
		t.Errorf("first %d, second %d: %s", first.status, second.status, second.raw)
	}
	// A refused form can be sent again, by the key of the page that shows the refusal.
	form = b.hidden(string(b.look("do/new-user", b.admin).raw))
	form.Set("username", "ben")
	form.Set("password", "a long password of ben")
	r := b.post("do/new-user", b.admin, form)
	if r.status < 400 || !strings.Contains(string(r.raw), `role="alert"`) || !strings.Contains(string(r.raw), `value="ben"`) || strings.Contains(string(r.raw), "a long password") {
		t.Errorf("refused: %d %s", r.status, r.raw)
	}
	if again := b.hidden(string(r.raw)).Get("key"); again == form.Get("key") {
		t.Error("the refusal has the key of the form that was refused")
	}
	for _, key := range []string{"", "x", strings.Repeat("a", 33)} {
		form.Set("key", key)
		if r := b.post("do/new-user", b.admin, form); r.status != http.StatusUnprocessableEntity {
			t.Errorf("key %q: %d", key, r.status)
		}
	}
}

// TestDeedForged: a form of another page does nothing.
func TestDeedForged(t *testing.T) {
	b := newBench(t)
	harbour(b)
	form := b.hidden(string(b.look("do/pause/fleet-default/harbour", b.admin).raw))
	r := b.request("POST", "/dashboard/do/pause/fleet-default/harbour", "", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Cookie", auth.SessionCookie+"="+b.admin)
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); r.status != http.StatusUnprocessableEntity || d.Value.Paused != nil {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := b.look("do/pause/fleet-default/harbour?sure=harbour&act=apply", b.admin); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); d.Value.Paused != nil {
		t.Error("a link did something")
	}
	for path, want := range map[string]int{"do/nothing": 404, "do/pause": 404, "do/pause/fleet-default/nowhere": 404, "do/pause/fleet-default": 404, "do/abort/op-nowhere0": 404, "do/pause/a/b/c": 404} {
		if r := b.look(path, b.admin); r.status != want {
			t.Errorf("%s: %d, want %d", path, r.status, want)
		}
	}
}

// TestDeedsGrave: what cannot be taken back asks for the name.
func TestDeedsGrave(t *testing.T) {
	b := newBench(t)
	harbour(b)
	for _, sure := range []string{"", "harbor", "HARBOUR"} {
		r := b.do("remove-cluster/fleet-default/harbour", b.admin, url.Values{"sure": {sure}})
		if d, ok := b.st.Clusters.Get("fleet-default/harbour"); r.status != http.StatusUnprocessableEntity || !ok || !d.Value.Deleting.IsZero() {
			t.Errorf("%q: %d", sure, r.status)
		}
	}
}

// TestDeedsAudited: the audit log has what was done in the words of the API, once.
func TestDeedsAudited(t *testing.T) {
	b := newBench(t)
	harbour(b)
	b.do("pause/fleet-default/harbour", b.admin, nil)
	found, err := b.audit.Newest(t.Context(), audit.Query{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range found.Entries {
		if e.Method == http.MethodPost {
			paths = append(paths, e.Path)
			if e.Username != "admin" || e.Source == "" || e.Object != "fleet-default/harbour" {
				t.Errorf("%+v", e)
			}
		}
	}
	if strings.Join(paths, " ") != "/v1-drover/clusters/fleet-default/harbour/pause" {
		t.Errorf("recorded: %q", paths)
	}
}

// TestOffers: each page offers what its reader may do, and no more.
func TestOffers(t *testing.T) {
	b := newBench(t)
	cl, machines := harbour(b)
	b.addOperation("op-abcdefgh", nil)
	ann, member := b.person("ann")
	b.bind("clusterroletemplatebindings", `{"clusterId":"`+cl.ID+`","roleTemplateId":"cluster-member","userId":"`+ann+`"}`)
	for path, offered := range map[string][]string{
		"clusters":                       {"/dashboard/new"},
		"clusters/fleet-default/harbour": {"change", "do/kubeconfig/fleet-default/harbour", "do/pause/fleet-default/harbour", "do/upgrade/fleet-default/harbour", "do/snapshot/fleet-default/harbour", "do/restore/fleet-default/harbour", "do/remove-cluster/fleet-default/harbour"},
		"machines/" + machines[0].Key():  {"do/cordon/", "do/drain/", "do/labels/", "do/remove-machine/"},
		"operations/op-abcdefgh":         {"do/abort/op-abcdefgh"},
		"users":                          {"do/new-user", "do/disable-user/" + ann},
		"tokens":                         {"do/new-token"},
		"settings":                       {"do/set-setting/ui-brand"},
		"bindings":                       {"do/give-role"},
	} {
		admin, theirs := string(b.look(path, b.admin).raw), string(b.look(path, member).raw)
		for _, one := range offered {
			if !strings.Contains(admin, one) {
				t.Errorf("%s does not offer %s to an administrator", path, one)
			}
			open := one == "do/new-token" || strings.HasPrefix(one, "do/kubeconfig")
			if strings.Contains(theirs, one) != open {
				t.Errorf("%s: a member is offered %s: %v, want %v", path, one, !open, open)
			}
		}
	}
}

// TestChangePage: a mistake has its line, what is applied is what was shown, and who comes second sees the first's change.
func TestChangePage(t *testing.T) {
	b := newBench(t)
	harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	read := func(r result) (text, base, seen string) {
		t.Helper()
		page := string(r.raw)
		field := func(pattern string) string {
			m := regexp.MustCompile(pattern).FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("no %s: %s", pattern, page)
			}
			return html.UnescapeString(m[1])
		}
		return field(`(?s)<textarea [^>]*>(.*?)</textarea>`), field(`name="base" value="([^"]*)"`), field(`name="seen" value="([^"]*)"`)
	}
	first := b.look(at, b.admin)
	text, base, _ := read(first)
	if text != base || !strings.Contains(text, "name: harbour") {
		t.Fatalf("the document is %q", text)
	}
	send := func(text, base, seen, act string) result {
		return b.post(at, b.admin, url.Values{"text": {strings.ReplaceAll(text, "\n", "\r\n")}, "base": {strings.ReplaceAll(base, "\n", "\r\n")}, "seen": {seen}, "act": {act}, "key": {ui.NewFormKey()}})
	}
	if r := send(text, base, "", "preview"); r.status != http.StatusOK || !strings.Contains(string(r.raw), "Nothing would change.") {
		t.Errorf("the same: %d %s", r.status, r.raw)
	}
	if r := send(text+"    nonsense: 1\n", base, "", "preview"); r.status != http.StatusUnprocessableEntity || !regexp.MustCompile(`data-line="\d+">line \d+</a> <code>spec.nonsense</code>`).Match(r.raw) {
		t.Errorf("a mistake: %d %s", r.status, r.raw)
	}
	if r := send(strings.Replace(text, "name: harbour", "name: other", 1), base, "", "preview"); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "no other cluster") {
		t.Errorf("another cluster: %d", r.status)
	}
	changed := strings.Replace(text, "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1)
	r := send(changed, base, "", "apply")
	if _, ok := b.st.Clusters.Get("fleet-default/harbour"); !ok || r.status != http.StatusConflict || !strings.Contains(string(r.raw), "Nothing was done") {
		t.Errorf("apply without a look: %d %s", r.status, r.raw)
	}
	_, _, seen := read(send(changed, base, "", "preview"))
	// In the meantime another user changes the cluster.
	if _, err := b.st.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
		c.Labels = map[string]string{"by": "<b>somebody"}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	r = send(changed, base, seen, "apply")
	if r.status != http.StatusConflict || !strings.Contains(string(r.raw), `<span class="added">`) || !strings.Contains(string(r.raw), "by: &#39;&lt;b&gt;somebody&#39;") && !strings.Contains(string(r.raw), "by: &lt;b&gt;somebody") {
		t.Errorf("after a change of somebody else: %d %s", r.status, r.raw)
	}
	text2, base2, seen2 := read(r)
	if text2 != changed || base2 == base {
		t.Errorf("one's own text is %q, and the base %q", text2, base2)
	}
	r = send(text2, base2, seen2, "apply")
	d, _ := b.st.Clusters.Get("fleet-default/harbour")
	if r.status != http.StatusSeeOther || d.Value.Labels["seen"] != "yes" {
		t.Errorf("apply: %d %v %s", r.status, d.Value.Labels, r.raw)
	}
	if r := b.look(at, b.user); r.status != http.StatusNotFound {
		t.Errorf("a user without rights: %d", r.status)
	}
}

// TestNewClusterPage: a cluster is made on the page, and the check as one types says the same as the preview.
func TestNewClusterPage(t *testing.T) {
	b := newBench(t)
	doc := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: pond\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig: {}\n"
	check := func(text string) (answer struct {
		Errors []struct {
			Line   int    `json:"line"`
			Reason string `json:"reason"`
		} `json:"errors"`
	}) {
		r := b.request("POST", "/dashboard/check", "", text, "Content-Type", "application/yaml", "Cookie", auth.SessionCookie+"="+b.user+"; "+auth.ForgeryCookie+"="+b.formToken(b.user), auth.ForgeryHeader, b.formToken(b.user))
		if err := json.Unmarshal(r.raw, &answer); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.raw)
		}
		return answer
	}
	if found := check(doc); len(found.Errors) != 0 {
		t.Errorf("%+v", found)
	}
	if found := check(strings.Replace(doc, "rkeConfig", "rkeConfg", 1)); len(found.Errors) == 0 || found.Errors[0].Line != 7 || found.Errors[0].Reason == "" {
		t.Errorf("%+v", found)
	}
	if r := b.look("new", b.user); r.status != http.StatusForbidden {
		t.Errorf("a user who may not make clusters: %d", r.status)
	}
	if r := b.look("new", b.admin); !strings.Contains(string(r.raw), "kubernetesVersion: v") {
		t.Errorf("the sample has no version: %s", r.raw)
	}
	seen := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindSubmatch(b.post("new", b.admin, url.Values{"text": {doc}, "act": {"preview"}}).raw)
	if seen == nil {
		t.Fatal("there is no preview")
	}
	r := b.post("new", b.admin, url.Values{"text": {doc}, "seen": {string(seen[1])}, "act": {"apply"}, "key": {ui.NewFormKey()}})
	if _, ok := b.st.Clusters.Get("fleet-default/pond"); r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/clusters/fleet-default/pond" || !ok {
		t.Errorf("%d %s", r.status, r.raw)
	}
}

// TestContainersOnPage: the page of a Docker host lists its containers, with the way to their logs, or says why it cannot.
func TestContainersOnPage(t *testing.T) {
	b := newBench(t)
	_, machines := harbour(b)
	key := machines[0].Key()
	d, err := b.st.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Docker = &records.DockerHost{ServerVersion: "20.10"}
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	connection := records.Connection{Subject: string(d.Value.Subject()), Replica: "r1", Since: start}
	if _, err := b.st.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
		t.Fatal(err)
	}
	status, body := http.StatusOK, `{"data":[{"id":"aaaabbbbccccdddd","name":"kube<b>let","image":"hyperkube:v1","state":"running","status":"Up 3 hours"}]}`
	b.askAgent = func(_ context.Context, _ records.Subject, path string) (*http.Response, error) {
		if path != "/v1/containers?" {
			t.Errorf("asked for %s", path)
		}
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	page := string(b.look("machines/"+key, b.admin).raw)
	for _, wanted := range []string{"kube&lt;b&gt;let", "Up 3 hours", `href="/v1-drover/machines/` + key + `/logs?container=aaaabbbbccccdddd&amp;tail=200&amp;follow=true"`} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %s: %s", wanted, page)
		}
	}
	status, body = http.StatusBadGateway, "Docker is away"
	if page := string(b.look("machines/"+key, b.admin).raw); !strings.Contains(page, "does not say which containers it has") || !strings.Contains(page, "Docker is away") {
		t.Errorf("the page of a silent host: %s", page)
	}
}

package ui_test

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
	"github.com/drover-project/drover/test/apibed"
)

// TestDeeds: what is done on the page is done, by who may.
func TestDeeds(t *testing.T) {
	b := apibed.New(t)
	cl, machines := apibed.Harbour(b)
	b.AddOperation("op-abcdefgh", nil)
	ann, _ := b.Person("ann")
	of := func(name string) records.Cluster {
		d, _ := b.State.Clusters.Get("fleet-default/" + name)
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
			d, _ := b.State.OperationsByID.First("op-abcdefgh")
			return d.Value.Abort != nil
		}},
		{"labels", "labels/" + machines[0].Key(), url.Values{"labels": {"rack=b disk-"}}, "/dashboard/machines/" + machines[0].Key() + "?done=labels", func() bool {
			d, _ := b.State.Machines.Get(machines[0].Key())
			return d.Value.NodeLabels["rack"] == "b"
		}},
		{"disable", "disable-user/" + ann, nil, "/dashboard/users?done=disable-user", func() bool {
			d, _ := b.State.Users.Get(ann)
			return d.Value.Disabled
		}},
		{"role", "give-role", url.Values{"user": {ann}, "role": {"cluster-member"}, "cluster": {cl.ID}}, "/dashboard/bindings?done=give-role", func() bool {
			return len(b.State.BindingsBySubject.Find(roles.LocalUser(ann))) == 1
		}},
		{"setting", "set-setting/ui-brand", url.Values{"value": {"harbours"}}, "/dashboard/settings?done=set-setting", func() bool { return b.Settings.Get("ui-brand").Value == "harbours" }},
		{"remove a machine", "remove-machine/" + machines[1].Key(), url.Values{"sure": {machines[1].Name}, "force": {"on"}}, "/dashboard/machines?done=remove-machine", func() bool {
			d, ok := b.State.Machines.Get(machines[1].Key())
			return !ok || !d.Value.Deleting.IsZero()
		}},
		{"remove", "remove-cluster/fleet-default/quay", url.Values{"sure": {"quay"}}, "/dashboard/clusters?done=remove-cluster", func() bool { return !of("quay").Deleting.IsZero() || of("quay").Name == "" }},
	} {
		if c.done() {
			t.Fatalf("%s is done before", c.name)
		}
		if r := b.Do(c.path, b.User, c.fields); r.Status != http.StatusForbidden && r.Status != http.StatusNotFound || c.done() {
			t.Errorf("%s by a user without rights: %d %s", c.name, r.Status, r.Raw)
		}
		if r := b.Do(c.path, b.Admin, c.fields); r.Status != http.StatusSeeOther || r.Header.Get("Location") != c.to {
			t.Errorf("%s: %d to %s: %s", c.name, r.Status, r.Header.Get("Location"), r.Raw)
		}
		if !c.done() {
			t.Errorf("%s is not done", c.name)
		}
	}
	if r := b.Look("users?done=disable-user", b.Admin); !strings.Contains(string(r.Raw), `<p id="notice" role="status">The user is disabled.</p>`) {
		t.Errorf("the page does not say what was done: %s", r.Raw)
	}
	if r := b.Look("users?done=%3Cb%3E", b.Admin); strings.Contains(string(r.Raw), "notice") {
		t.Error("an address has the page say something")
	}
	// What is refused is said of the field as the form calls it, and roles that cannot be given there are not proposed.
	if r := b.Do("give-role", b.Admin, url.Values{"user": {ann}, "role": {"cluster-member"}, "cluster": {"c-nowhere"}}); r.Status < 400 || !strings.Contains(string(r.Raw), "In cluster: ") || strings.Contains(string(r.Raw), "ClusterId") {
		t.Errorf("a role in no cluster: %d %s", r.Status, r.Raw)
	}
	if page := string(b.Look("do/give-role", b.Admin).Raw); !strings.Contains(page, `"cluster-member"`) || strings.Contains(page, `"project-member"`) {
		t.Errorf("the roles that are proposed: %s", page)
	}
	// A binding that was given is listed with its way out, and taken away by it.
	binding := b.State.BindingsBySubject.Find(roles.LocalUser(ann))[0].Value.ID
	page := string(b.Look("bindings", b.Admin).Raw)
	if !strings.Contains(page, `href="/dashboard/do/take-role/`+url.PathEscape(binding)+`"`) || !strings.Contains(page, ">ann<") {
		t.Errorf("the binding is not on its page: %s", page)
	}
	if r := b.Do("take-role/"+url.PathEscape(binding), b.Admin, nil); r.Status != http.StatusSeeOther || len(b.State.BindingsBySubject.Find(roles.LocalUser(ann))) != 0 {
		t.Errorf("take a role: %d %s", r.Status, r.Raw)
	}
}

// TestWhatIsGivenIsRead: what a verb cannot be made of is refused in the form, with what was given, and the server is not asked.
func TestWhatIsGivenIsRead(t *testing.T) {
	b := apibed.New(t)
	_, machines := apibed.Harbour(b)
	for given, want := range map[string]string{"rack": `&#34;rack&#34; is neither KEY=VALUE nor KEY-`, "rack=a rack=b": "label rack is given twice"} {
		r := b.Do("labels/"+machines[0].Key(), b.Admin, url.Values{"labels": {given}})
		if text := string(r.Raw); r.Status != http.StatusUnprocessableEntity || !strings.Contains(text, want) && !strings.Contains(text, strings.ToUpper(want[:1])+want[1:]) || !strings.Contains(text, `value="`+given+`"`) {
			t.Errorf("%s: %d %s", given, r.Status, r.Raw)
		}
	}
	if d, _ := b.State.Machines.Get(machines[0].Key()); d.Value.NodeLabels["rack"] != "7" {
		t.Errorf("the labels are %v", d.Value.NodeLabels)
	}
	// The command that does the same has each label as a word of its own.
	if page := string(b.Look("do/labels/"+machines[0].Key()+"?labels=rack%3Da+disk-", b.Admin).Raw); !strings.Contains(page, "drover machines label "+machines[0].Name+" rack=a disk-") {
		t.Error(page)
	}
}

// TestDeedOnce: a button that is pressed twice does it once, and both get the same answer.
func TestDeedOnce(t *testing.T) {
	b := apibed.New(t)
	fields := url.Values{"username": {"ben"}, "password": {"a long password of ben"}}
	form := b.Hidden(string(b.Look("do/new-user", b.Admin).Raw))
	maps.Copy(form, fields)
	var all sync.WaitGroup
	answers := make([]apibed.Result, 8)
	for i := range answers {
		all.Go(func() { answers[i] = b.Post("do/new-user", b.Admin, form) })
	}
	all.Wait()
	for _, r := range answers {
		if r.Status != http.StatusSeeOther {
			t.Errorf("%d: %s", r.Status, r.Raw)
		}
	}
	made := 0
	for _, d := range b.State.Users.List() {
		if d.Value.Username == "ben" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d users were made", made)
	}
	// What is shown once is shown to the first alone.
	form = b.Hidden(string(b.Look("do/new-token", b.Admin).Raw))
	first, second := b.Post("do/new-token", b.Admin, form), b.Post("do/new-token", b.Admin, form)
	if !strings.Contains(string(first.Raw), "token-") || second.Status != http.StatusConflict || len(regexp.MustCompile(`token-\w+:\w+`).FindAll(second.Raw, -1)) != 0 {
		t.Errorf("first %d, second %d: %s", first.Status, second.Status, second.Raw)
	}
	// A refused form can be sent again, by the key of the page that shows the refusal.
	form = b.Hidden(string(b.Look("do/new-user", b.Admin).Raw))
	form.Set("username", "ben")
	form.Set("password", "a long password of ben")
	r := b.Post("do/new-user", b.Admin, form)
	if r.Status < 400 || !strings.Contains(string(r.Raw), `role="alert"`) || !strings.Contains(string(r.Raw), `value="ben"`) || strings.Contains(string(r.Raw), "a long password") {
		t.Errorf("refused: %d %s", r.Status, r.Raw)
	}
	if again := b.Hidden(string(r.Raw)).Get("key"); again == form.Get("key") {
		t.Error("the refusal has the key of the form that was refused")
	}
	for _, key := range []string{"", "x", strings.Repeat("a", 33)} {
		form.Set("key", key)
		if r := b.Post("do/new-user", b.Admin, form); r.Status != http.StatusUnprocessableEntity {
			t.Errorf("key %q: %d", key, r.Status)
		}
	}
}

// TestDeedForged: a form of another page does nothing.
func TestDeedForged(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	form := b.Hidden(string(b.Look("do/pause/fleet-default/harbour", b.Admin).Raw))
	r := b.Request("POST", "/dashboard/do/pause/fleet-default/harbour", "", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Cookie", auth.SessionCookie+"="+b.Admin)
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); r.Status != http.StatusUnprocessableEntity || d.Value.Paused != nil {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Look("do/pause/fleet-default/harbour?sure=harbour&act=apply", b.Admin); r.Status != http.StatusOK {
		t.Errorf("%d", r.Status)
	}
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); d.Value.Paused != nil {
		t.Error("a link did something")
	}
	for path, want := range map[string]int{"do/nothing": 404, "do/pause": 404, "do/pause/fleet-default/nowhere": 404, "do/pause/fleet-default": 404, "do/abort/op-nowhere0": 404, "do/pause/a/b/c": 404} {
		if r := b.Look(path, b.Admin); r.Status != want {
			t.Errorf("%s: %d, want %d", path, r.Status, want)
		}
	}
}

// TestDeedsGrave: what cannot be taken back asks for the name.
func TestDeedsGrave(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	for _, sure := range []string{"", "harbor", "HARBOUR"} {
		r := b.Do("remove-cluster/fleet-default/harbour", b.Admin, url.Values{"sure": {sure}})
		if d, ok := b.State.Clusters.Get("fleet-default/harbour"); r.Status != http.StatusUnprocessableEntity || !ok || !d.Value.Deleting.IsZero() {
			t.Errorf("%q: %d", sure, r.Status)
		}
	}
}

// TestDeedsAudited: the audit log has what was done in the words of the API, once.
func TestDeedsAudited(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.Do("pause/fleet-default/harbour", b.Admin, nil)
	found, err := b.Audit.Newest(t.Context(), audit.Query{}, 100)
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
	b := apibed.New(t)
	cl, machines := apibed.Harbour(b)
	b.AddOperation("op-abcdefgh", nil)
	ann, member := b.Person("ann")
	b.Bind("clusterroletemplatebindings", `{"clusterId":"`+cl.ID+`","roleTemplateId":"cluster-member","userId":"`+ann+`"}`)
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
		admin, theirs := string(b.Look(path, b.Admin).Raw), string(b.Look(path, member).Raw)
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
	b := apibed.New(t)
	apibed.Harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	read := func(r apibed.Result) (text, base, seen string) {
		t.Helper()
		page := string(r.Raw)
		field := func(pattern string) string {
			m := regexp.MustCompile(pattern).FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("no %s: %s", pattern, page)
			}
			return html.UnescapeString(m[1])
		}
		return field(`(?s)<textarea [^>]*>(.*?)</textarea>`), field(`name="base" value="([^"]*)"`), field(`name="seen" value="([^"]*)"`)
	}
	first := b.Look(at, b.Admin)
	text, base, _ := read(first)
	if text != base || !strings.Contains(text, "name: harbour") {
		t.Fatalf("the document is %q", text)
	}
	send := func(text, base, seen, act string) apibed.Result {
		return b.Post(at, b.Admin, url.Values{"text": {strings.ReplaceAll(text, "\n", "\r\n")}, "base": {strings.ReplaceAll(base, "\n", "\r\n")}, "seen": {seen}, "act": {act}, "key": {ui.NewFormKey()}})
	}
	if r := send(text, base, "", "preview"); r.Status != http.StatusOK || !strings.Contains(string(r.Raw), "Nothing would change.") {
		t.Errorf("the same: %d %s", r.Status, r.Raw)
	}
	if r := send(text+"    nonsense: 1\n", base, "", "preview"); r.Status != http.StatusUnprocessableEntity || !regexp.MustCompile(`data-line="\d+">line \d+</a> <code>spec.nonsense</code>`).Match(r.Raw) {
		t.Errorf("a mistake: %d %s", r.Status, r.Raw)
	}
	if r := send(strings.Replace(text, "name: harbour", "name: other", 1), base, "", "preview"); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "no other cluster") {
		t.Errorf("another cluster: %d", r.Status)
	}
	changed := strings.Replace(text, "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1)
	r := send(changed, base, "", "apply")
	if _, ok := b.State.Clusters.Get("fleet-default/harbour"); !ok || r.Status != http.StatusConflict || !strings.Contains(string(r.Raw), "Nothing was done") {
		t.Errorf("apply without a look: %d %s", r.Status, r.Raw)
	}
	_, _, seen := read(send(changed, base, "", "preview"))
	// In the meantime another user changes the cluster.
	if _, err := b.State.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
		c.Labels = map[string]string{"by": "<b>somebody"}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	r = send(changed, base, seen, "apply")
	if r.Status != http.StatusConflict || !strings.Contains(string(r.Raw), `<span class="added">`) || !strings.Contains(string(r.Raw), "by: &#39;&lt;b&gt;somebody&#39;") && !strings.Contains(string(r.Raw), "by: &lt;b&gt;somebody") {
		t.Errorf("after a change of somebody else: %d %s", r.Status, r.Raw)
	}
	text2, base2, seen2 := read(r)
	if text2 != changed || base2 == base {
		t.Errorf("one's own text is %q, and the base %q", text2, base2)
	}
	r = send(text2, base2, seen2, "apply")
	d, _ := b.State.Clusters.Get("fleet-default/harbour")
	if r.Status != http.StatusSeeOther || d.Value.Labels["seen"] != "yes" {
		t.Errorf("apply: %d %v %s", r.Status, d.Value.Labels, r.Raw)
	}
	if r := b.Look(at, b.User); r.Status != http.StatusNotFound {
		t.Errorf("a user without rights: %d", r.Status)
	}
}

// TestNewClusterPage: a cluster is made on the page, and the check as one types says the same as the preview.
func TestNewClusterPage(t *testing.T) {
	b := apibed.New(t)
	doc := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: pond\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig: {}\n"
	check := func(text string) (answer struct {
		Errors []struct {
			Line   int    `json:"line"`
			Reason string `json:"reason"`
		} `json:"errors"`
	}) {
		r := b.Request("POST", "/dashboard/check", "", text, "Content-Type", "application/yaml", "Cookie", auth.SessionCookie+"="+b.User+"; "+auth.ForgeryCookie+"="+b.FormToken(b.User), auth.ForgeryHeader, b.FormToken(b.User))
		if err := json.Unmarshal(r.Raw, &answer); err != nil || r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Raw)
		}
		return answer
	}
	if found := check(doc); len(found.Errors) != 0 {
		t.Errorf("%+v", found)
	}
	if found := check(strings.Replace(doc, "rkeConfig", "rkeConfg", 1)); len(found.Errors) == 0 || found.Errors[0].Line != 7 || found.Errors[0].Reason == "" {
		t.Errorf("%+v", found)
	}
	if r := b.Look("new", b.User); r.Status != http.StatusForbidden {
		t.Errorf("a user who may not make clusters: %d", r.Status)
	}
	if r := b.Look("new", b.Admin); !strings.Contains(string(r.Raw), "kubernetesVersion: v") {
		t.Errorf("the sample has no version: %s", r.Raw)
	}
	seen := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindSubmatch(b.Post("new", b.Admin, url.Values{"text": {doc}, "act": {"preview"}}).Raw)
	if seen == nil {
		t.Fatal("there is no preview")
	}
	r := b.Post("new", b.Admin, url.Values{"text": {doc}, "seen": {string(seen[1])}, "act": {"apply"}, "key": {ui.NewFormKey()}})
	if _, ok := b.State.Clusters.Get("fleet-default/pond"); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/clusters/fleet-default/pond" || !ok {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

// TestContainersOnPage: the page of a Docker host lists its containers, with the way to their logs, or says why it cannot.
func TestContainersOnPage(t *testing.T) {
	b := apibed.New(t)
	_, machines := apibed.Harbour(b)
	key := machines[0].Key()
	d, err := b.State.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Docker = &records.DockerHost{ServerVersion: "20.10"}
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	connection := records.Connection{Subject: string(d.Value.Subject()), Replica: "r1", Since: apibed.Start}
	if _, err := b.State.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
		t.Fatal(err)
	}
	status, body := http.StatusOK, `{"data":[{"id":"aaaabbbbccccdddd","name":"kube<b>let","image":"hyperkube:v1","state":"running","status":"Up 3 hours"}]}`
	b.AskAgent = func(_ context.Context, _ records.Subject, path string) (*http.Response, error) {
		if path != "/v1/containers?" {
			t.Errorf("asked for %s", path)
		}
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	page := string(b.Look("machines/"+key, b.Admin).Raw)
	for _, wanted := range []string{"kube&lt;b&gt;let", "Up 3 hours", `href="/v1-drover/machines/` + key + `/logs?container=aaaabbbbccccdddd&amp;tail=200&amp;follow=true"`} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %s: %s", wanted, page)
		}
	}
	status, body = http.StatusBadGateway, "Docker is away"
	if page := string(b.Look("machines/"+key, b.Admin).Raw); !strings.Contains(page, "does not say which containers it has") || !strings.Contains(page, "Docker is away") {
		t.Errorf("the page of a silent host: %s", page)
	}
}

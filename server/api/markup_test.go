package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/test/apibed"
	"github.com/drover-project/drover/test/markup"
	"github.com/drover-project/drover/tunnel"
)

// everything stores something in every collection that pages show, beside harbour with all on its pages.
func everything(b *apibed.Bed) {
	b.T.Helper()
	apibed.HarbourToSee(b)
	b.AddOperation("op-failedxx", func(o *operations.Operation) { o.State, o.Reason = operations.Failed, "no space left" })
	b.Person("ann", "user")
	b.AddCluster("dockyard", "c-docky", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	})
	rke1 := clusterspec.RancherKubernetesEngineConfig(`{"kubernetes_version":"v1.30.8-rancher1-1"}`)
	b.AddCluster("drydock", "c-drydk", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &rke1}
	})
	b.AddMachine(records.Cluster{Object: records.Object{Namespace: "c-docky", Name: "dockyard"}, ID: "c-docky"}, "0000000000dd", func(m *records.Machine) {
		m.Name, m.ClusterNamespace, m.Docker = "m-0000000000dd", "fleet-default", &records.DockerHost{ServerVersion: "28.0.4"}
	})
	b.Want(http.StatusOK, "POST", "/v1-drover/fleets/edge/join", "")
	fleet, _ := b.State.Fleets.Get(string(records.FleetKey("edge")))
	b.AddMachine(records.Cluster{Object: fleet.Value.Object, ID: fleet.Value.ID}, "0000000000ff", nil)
	ctx := b.T.Context()
	must := func(_ any, err error) {
		b.T.Helper()
		if err != nil {
			b.T.Fatal(err)
		}
	}
	for i, fault := range []string{"", "no space left"} {
		one := records.Snapshot{Cluster: "fleet-default/harbour", Machine: "custom-0f31c2aa9d10", File: fmt.Sprintf("/db/snapshots/etcd-%d", i), Fault: fault, Created: apibed.Start}
		must(b.State.Snapshots.Create(ctx, one.Key(), one))
	}
	for _, binding := range []roles.Binding{
		{ID: "grb-group", Role: "user", Subject: roles.Subject{Group: "openldap_group://crew"}},
		{ID: "c-m-h4rb0r55:crtb-1", Role: "cluster-member", Subject: roles.Subject{User: roles.LocalUser("u-bob")}, ClusterID: "c-m-h4rb0r55"},
		{ID: "c-m-h4rb0r55-p-1:prtb-1", Role: "project-member", Subject: roles.Subject{User: roles.LocalUser("u-nobody")}, ClusterID: "c-m-h4rb0r55", ProjectID: "c-m-h4rb0r55:p-11111"},
	} {
		must(b.State.Bindings.Create(ctx, binding.ID, binding))
	}
	subject := "c-docky:m-0000000000dd"
	must(b.State.Replicas.Create(ctx, "r1", records.Replica{ID: "r1", URL: "https://one", Version: "v0.1.0"}))
	must(b.State.Connections.Create(ctx, subject+"|r1", records.Connection{Subject: subject, Replica: "r1", Since: apibed.Start}))
	must(b.State.Connections.Create(ctx, "fleet-default/custom-0f31c2aa9d10|r1", records.Connection{Subject: "fleet-default/custom-0f31c2aa9d10", Replica: "r1", Since: apibed.Start}))
	must(b.State.Watches.Create(ctx, "fleet-default/custom-0f31c2aa9d10-machine-plan|r1", records.Connection{Subject: "fleet-default/custom-0f31c2aa9d10-machine-plan", Replica: "r1", Since: apibed.Start}))
	must(b.State.GlobalRoles.Create(ctx, "hand", roles.Role{ID: "hand", Context: roles.Global}))
	must(b.State.RoleTemplates.Create(ctx, "mate", roles.Role{ID: "mate", Context: roles.Cluster}))
	must(b.State.Projects.Create(ctx, "c-m-h4rb0r55/p-11111", records.Project{ID: "c-m-h4rb0r55:p-11111", ClusterID: "c-m-h4rb0r55", Name: "crew"}))
	must(b.State.Namespaces.Create(ctx, "c-m-h4rb0r55/0", records.NamespacePage{Projects: map[string]string{"x": "c-m-h4rb0r55:p-11111"}}))
	must(b.State.ProjectSecrets.Create(ctx, "c-m-h4rb0r55/p-11111/x", records.ProjectSecret{ProjectID: "c-m-h4rb0r55:p-11111", Name: "x"}))
	for _, kind := range []string{records.OpenLDAP, records.GenericOIDC} {
		must(b.State.Directories.Create(ctx, kind, records.Directory{Kind: kind, LDAP: &records.LDAPDirectory{}, OIDC: &records.OIDCDirectory{Issuer: "https://login.example"}}))
	}
	must(b.State.Rehearsals.Create(ctx, "fleet-default/harbour", records.Rehearsals{Last: &records.RehearsalEnd{}, Held: &records.HeldRehearsal{}}))
	must(b.State.RKEStates.Create(ctx, "fleet-default/drydock", records.RKEState{Ends: map[string]time.Time{"x": apibed.Start}, Snapshots: []records.RKESnapshot{{ID: "1"}, {ID: "2", Failure: "x"}}}))
	must(b.State.ClusterAgents.Create(ctx, "fleet-default/harbour", records.ClusterAgent{}))
	must(b.State.ClusterSecrets.Create(ctx, "fleet-default/harbour", records.ClusterSecrets{ServerToken: "hunter2-server"}))
	must(b.State.NodeConfigs.Create(ctx, "c-docky/m-0000000000dd", records.NodeConfig{Config: json.RawMessage(`{}`)}))
	must(b.State.GivenPlans.Create(ctx, "drover-fleets/edge/op-x", records.GivenPlan{Plan: json.RawMessage(`{}`)}))
	must(b.State.Objects.Create(ctx, "Secret/fleet-default/x", objects.Object{Kind: "Secret", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "x"}}))
	must(b.State.Preferences.Create(ctx, "user-admin/theme", records.Preference{UserID: "user-admin", Name: "theme"}))
	must(b.State.DirectoryTokens.Create(ctx, "u-bob", records.DirectoryToken{}))
	must(b.State.TokenUses.Create(ctx, "token-admin", records.TokenUse{At: b.Now()}))
	must(b.State.ServerSecrets.Create(ctx, "x", records.ServerSecret{}))
	must(b.State.Settings.Create(ctx, "ui-brand", records.Setting{Name: "ui-brand"}))
	must(b.State.Events.Create(ctx, "c-m-h4rb0r55/0000000001", records.EventPage{Events: []records.Event{{Revision: 1, ClusterID: "c-m-h4rb0r55", Kind: "machine", Key: "x"}}}))
}

// evil puts a text into all that the server keeps, and into all that hosts, other servers and version data say.
func evil(b *apibed.Bed, text string) {
	b.T.Helper()
	empty, err := markup.Everywhere(b.T.Context(), b.State, text)
	if err != nil {
		b.T.Fatal(err)
	}
	if len(empty) > 0 {
		b.T.Errorf("no page is looked at with something in the collections %v", empty)
	}
	quoted, _ := json.Marshal(text)
	plan := fmt.Sprintf(`{"files":[{"path":%s,"content":%q},{"path":"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml","content":%[2]q}],"instructions":[{"name":%[1]s,"image":%[1]s}],"periodicInstructions":[{"name":%[1]s,"periodSeconds":60}],"probes":{%[1]s:{}}}`, quoted, base64.StdEncoding.EncodeToString([]byte(text)))
	apibed.Alter(b, "fleet-default/custom-0f31c2aa9d10-machine-plan", b.State.PlanSecrets.Modify, func(s *records.PlanSecret) {
		s.Data = map[string][]byte{plans.KeyPlan: []byte(plan), plans.KeyPlanState: []byte(text)}
	})
	apibed.Alter(b, "fleet-default/harbour", b.State.Clusters.Modify, func(c *records.Cluster) {
		c.Spec.KubernetesVersion, c.Status.Ready, c.Status.Connected, c.Status.Failed = "v1.34.4+k3s1"+text, false, false, true
	})
	apibed.Alter(b, "fleet-default/custom-000000000001", b.State.Machines.Modify, func(m *records.Machine) { m.Status.State = records.MachineState(text) })
	apibed.Alter(b, "fleet-default/custom-0f31c2aa9d10", b.State.Machines.Modify, func(m *records.Machine) { m.Status.State = records.Failed })
	apibed.Alter(b, "fleet-default/harbour/custom-0f31c2aa9d10/etcd-0", b.State.Snapshots.Modify, func(s *records.Snapshot) { s.Fault = "" })
	// What has an ID in the page keeps one of its own.
	apibed.Alter(b, "fleet-default/harbour/custom-0f31c2aa9d10/etcd-1", b.State.Snapshots.Modify, func(s *records.Snapshot) { s.File = "/etcd-1" })
	apibed.Alter(b, "fleet-default/drydock", b.State.RKEStates.Modify, func(s *records.RKEState) { s.Snapshots[1].ID = "2" })
	apibed.Alter(b, "u-bob", b.State.Users.Modify, func(u *records.User) { u.Username = text })
	apibed.Alter(b, "ui-brand", b.State.Settings.Modify, func(s *records.Setting) { s.Value = text })
	b.Token("user-admin", records.Token{Description: text, ClusterID: text})
	if _, err := b.State.Bindings.Create(b.T.Context(), "grb-evil", roles.Binding{ID: "grb-evil", Role: text, Subject: roles.Subject{Group: text}}); err != nil {
		b.T.Fatal(err)
	}
	fleet := records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "yard" + text}, ID: "f-" + text}
	if _, err := b.State.Fleets.Create(b.T.Context(), "drover-fleets/yard", fleet); err != nil {
		b.T.Fatal(err)
	}
	b.Tunnels = func(context.Context) []hosts.HeldTunnels {
		said := tunnel.SessionInfo{Subject: "c-docky:m-0000000000dd", Kind: text, Protocol: text, Remote: text}
		return []hosts.HeldTunnels{{Server: text, Value: []tunnel.SessionInfo{said}}, {Server: "other" + text, Fault: text}}
	}
	b.Workers = []hosts.Said[[]reconcile.Status]{{Server: text, Value: []reconcile.Status{{
		Name: text, Title: text, Running: true, Waits: []reconcile.KeyWait{{Key: text, Waiting: reconcile.Wait{Object: text, Cause: text}}}, Faults: []reconcile.Fault{{Key: text, Error: text}},
	}}}}
	b.VersionStatus = versions.Status{Location: text, Date: text, Fault: text}
	b.AskAgent = func(context.Context, records.Subject, string) (*http.Response, error) {
		body := fmt.Sprintf(`{"data":[{"id":%[1]s,"name":%[1]s,"image":%[1]s,"state":%[1]s,"status":%[1]s}]}`, quoted)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// parameters are all that addresses of pages are asked with.
var parameters = []string{
	"q", "state", "sort", "page", "to", "over", "done", "seen", "setup", "labels", "taints", "node-name", "etcd", "line", "cluster", "user", "verb", "kind", "object", "snapshot", "version", "mode", "fleet", "name", "window",
	"uninstall", "force", "now", "no-snapshot", "description", "ttl", "group", "role", "value", "username", "password", "key", "sure",
}

// queries are an address with all parameters, and with those that are no others.
func queries(text string) []string {
	all := url.Values{}
	for _, name := range parameters {
		all.Set(name, text)
	}
	kinds := url.Values{"etcd": {"on"}, "labels": {text}, "taints": {text}, "node-name": {text}}
	return []string{"", "?" + all.Encode(), "?" + kinds.Encode()}
}

// TestMarkupIsText feeds markup into all texts of all documents, of all answers of hosts and of all addresses that pages
// show, and into all forms.
func TestMarkupIsText(t *testing.T) {
	for i, text := range markup.Texts {
		t.Run(fmt.Sprint(i), func(t *testing.T) { markupIsText(t, text) })
	}
}

func markupIsText(t *testing.T, text string) {
	b := apibed.New(t)
	everything(b)
	evil(b, text)
	segment := url.PathEscape(text)
	paths := slices.Concat(apibed.Pages, []string{
		segment, "clusters/" + segment + "/" + segment, "clusters/fleet-default/" + segment + "/join", "machines/" + segment + "/" + segment, "operations/" + segment, "fleets/" + segment,
		"fleets/" + url.PathEscape("yard"+text), "do/" + segment, "do/pause/" + segment + "/" + segment, "do/end-token/" + segment, "do/take-role/grb-evil", "do/enable-user/u-bob", "do/set-password/u-bob",
	})
	for path := range crawl(b, b.Admin, paths) {
		harmless(b, path, b.Look(path, b.Admin), text)
		if at, _, asked := strings.Cut(path, "?"); !asked {
			for _, query := range queries(text) {
				harmless(b, at+query, b.Look(at+query, b.Admin), text)
			}
		}
	}
	for _, post := range formsOf(text) {
		harmless(b, "POST "+post.path, b.Post(post.path, b.Admin, post.form), text)
	}
	shown := html.EscapeString(text[:20])
	for _, path := range []string{
		"clusters", "clusters/fleet-default/harbour", "clusters/fleet-default/drydock", "machines", "machines/fleet-default/custom-0f31c2aa9d10", "machines/c-docky/m-0000000000dd", "operations/op-abcdefgh", "users", "tokens",
		"settings", "fleets", "roles", "bindings", "servers", "versions", "audit?user=" + url.QueryEscape(text), "login",
	} {
		if r := b.Look(path, b.Admin); !strings.Contains(string(r.Raw), shown) && !strings.Contains(string(r.Raw), strings.ReplaceAll(shown, "+", "&#43;")) {
			t.Errorf("%s does not show the texts that it was fed: %s", path, r.Raw)
		}
	}
}

// formsOf are what people send, with the text in every field.
func formsOf(text string) []struct {
	path string
	form url.Values
} {
	all := url.Values{}
	for _, name := range append(parameters, "text", "base", "current", "new", "again", "directory") {
		all.Set(name, text)
	}
	with := func(pairs ...string) url.Values {
		form := url.Values{}
		maps.Copy(form, all)
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	yaml := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  kubernetesVersion: %s\n  rkeConfig: {machineGlobalConfig: {disable: [%s]}}\n"
	quoted, _ := json.Marshal(text)
	return []struct {
		path string
		form url.Values
	}{
		{"login", all}, {"login", with("directory", "")}, {"password", all}, {apibed.TerminalOfHarbour, all}, {apibed.TerminalOfHarbour, with("line", "get "+text)},
		{"clusters/fleet-default/harbour/change", with("act", "preview")},
		{"clusters/fleet-default/harbour/change", with("act", "preview", "text", fmt.Sprintf(yaml, quoted, quoted, quoted))},
		{"clusters/fleet-default/harbour/change", with("act", "preview", "text", fmt.Sprintf(yaml, "harbour", "v1.34.4+k3s1", quoted))},
		{"new", with("act", "preview")}, {"new", with("act", "preview", "text", fmt.Sprintf(yaml, "pond", "v1.34.4+k3s1", quoted))}, {"new", with("act", "preview", "text", fmt.Sprintf(yaml, quoted, "v1.34.4+k3s1", quoted))},
		{"do/restore/fleet-default/harbour", all}, {"do/window/fleet-default/harbour", with("key", strings.Repeat("a", 32))}, {"do/upgrade/fleet-default/harbour", with("key", strings.Repeat("b", 32))},
		{"do/labels/fleet-default/custom-0f31c2aa9d10", with("key", strings.Repeat("c", 32))}, {"do/give-role", with("key", strings.Repeat("d", 32))}, {"do/new-user", with("key", strings.Repeat("e", 32))},
		{"do/new-token", with("key", strings.Repeat("f", 32))}, {"do/join-fleet", with("key", strings.Repeat("0", 32))}, {"do/remove-user/u-bob", with("key", strings.Repeat("1", 32))},
		{"do/set-setting/ui-pl", with("key", strings.Repeat("2", 32))}, {"do/rehearse/fleet-default/harbour", with("key", strings.Repeat("3", 32))}, {"do/" + url.PathEscape(text), all},
	}
}

var ownImage = regexp.MustCompile(`^/dashboard/(assets/drover\.svg\?v=[0-9a-f]+|docs/(growth-machines|growth-clusters|soak)\.svg)$`)

// harmless holds that a page has no element and no attribute but those of the templates.
func harmless(b *apibed.Bed, path string, r apibed.Result, text string) {
	b.T.Helper()
	if r.Status >= 500 && r.Status != http.StatusServiceUnavailable {
		b.T.Errorf("%s: status %d: %s", path, r.Status, r.Raw)
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		return // an answer without a page, such as the way to another
	}
	b.Tidy(path, string(r.Raw))
	for z := html.NewTokenizer(strings.NewReader(string(r.Raw))); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		for _, a := range token.Attr {
			if token.Data == "img" && a.Key == "src" && !ownImage.MatchString(a.Val) || a.Key == "onerror" || strings.ContainsAny(a.Key, `<>"'`) {
				b.T.Errorf("%s: markup became %s", path, token)
			}
			if to := strings.ToLower(strings.TrimSpace(a.Val)); slices.Contains([]string{"href", "src", "action", "formaction"}, a.Key) && (strings.HasPrefix(to, "javascript:") || strings.HasPrefix(to, "data:") || strings.HasPrefix(to, "//")) {
				b.T.Errorf("%s: an address became %s", path, token)
			}
		}
	}
}

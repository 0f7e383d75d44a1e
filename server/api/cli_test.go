package api_test

// What the original rancher CLI requests, as recorded of one built from its commit
// 06a87b3c, and what its client library (rancher/norman clientbase) insists on. The
// CLI itself cannot be built here, since its modules are not on the module proxy, so
// this client does what it does: the same requests, the same checks, the same types.

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// cli is one run of the CLI: a server, a token, a context "<cluster>:<project>" or none.
type cli struct {
	t       testing.TB
	server  *httptest.Server
	token   string
	context string
	// trace are the requests in their order.
	trace []string
	// apis are the loaded schemas of cluster, project, management and Steve API, in this order.
	apis []map[string]cliSchema
}

type cliSchema struct {
	ID                string            `json:"id"`
	PluralName        string            `json:"pluralName"`
	CollectionMethods []string          `json:"collectionMethods"`
	ResourceMethods   []string          `json:"resourceMethods"`
	Links             map[string]string `json:"links"`
}

// The structs of the client library: a value of another type fails the whole list.
type cliResource struct {
	ID                   string            `json:"id"`
	Type                 string            `json:"type"`
	Links                map[string]string `json:"links"`
	Actions              map[string]string `json:"actions"`
	Name                 string            `json:"name"`
	Created              *time.Time        `json:"created"`
	Labels               map[string]string `json:"labels"`
	State                string            `json:"state"`
	Transitioning        string            `json:"transitioning"`
	TransitioningMessage string            `json:"transitioningMessage"`
	// cluster
	Driver      string            `json:"driver"`
	Provider    string            `json:"provider"`
	NodeCount   int64             `json:"nodeCount"`
	Requested   map[string]string `json:"requested"`
	Allocatable map[string]string `json:"allocatable"`
	// node, project, token, setting
	ClusterID          string `json:"clusterId"`
	NodeName           string `json:"nodeName"`
	RequestedHostname  string `json:"requestedHostname"`
	ControlPlane       bool   `json:"controlPlane"`
	Command            string `json:"command"`
	InsecureCommand    string `json:"insecureCommand"`
	NodeCommand        string `json:"nodeCommand"`
	Token              string `json:"token"`
	Enabled            *bool  `json:"enabled"`
	TTL                int64  `json:"ttl"`
	Expired            bool   `json:"expired"`
	Value              string `json:"value"`
	Default            string `json:"default"`
	Customized         bool   `json:"customized"`
	Config             string `json:"config"`
	MustChangePassword bool   `json:"mustChangePassword"`
}

type cliError struct {
	status int
	body   string
}

func (e *cliError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.body) }

func (c *cli) do(method, target, body string) (*http.Response, []byte, error) {
	c.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = c.server.URL + target
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	name, key, _ := strings.Cut(c.token, ":")
	r.SetBasicAuth(name, key)
	c.trace = append(c.trace, method+" "+strings.TrimPrefix(target, c.server.URL))
	response, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil && response.StatusCode != http.StatusNoContent {
		return response, nil, &cliError{response.StatusCode, "not JSON"}
	}
	if response.StatusCode >= 300 || method == "GET" && response.StatusCode != 200 {
		return response, raw, &cliError{response.StatusCode, string(raw)}
	}
	return response, raw, nil
}

func (c *cli) get(target string) (cliResource, error) { return c.one("GET", target, "") }

func (c *cli) one(method, target, body string) (cliResource, error) {
	_, raw, err := c.do(method, target, body)
	var r cliResource
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

func (c *cli) list(target string) ([]cliResource, error) {
	_, raw, err := c.do("GET", target, "")
	var l struct {
		Data []cliResource `json:"data"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	return l.Data, err
}

// load is the client library's start: the root, then the schemas that its header names.
func (c *cli) load(path string) (map[string]cliSchema, error) {
	response, _, err := c.do("GET", path, "")
	if err != nil {
		return nil, err
	}
	at := response.Header.Get("X-API-Schemas")
	if at == "" {
		return nil, fmt.Errorf("%s has no header X-API-Schemas", path)
	}
	_, raw, err := c.do("GET", at, "")
	if err != nil {
		return nil, err
	}
	var l struct {
		Data []cliSchema `json:"data"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	schemas := map[string]cliSchema{}
	for _, s := range l.Data {
		schemas[s.ID] = s
	}
	return schemas, nil
}

// preamble is what nearly every command begins with.
func (c *cli) preamble() error {
	cluster, _, _ := strings.Cut(c.context, ":")
	c.apis = nil
	for _, path := range []string{"/v3/clusters/" + cluster, "/v3/projects/" + c.context, "/v3", "/v1"} {
		schemas, err := c.load(path)
		if err != nil {
			return err
		}
		c.apis = append(c.apis, schemas)
	}
	return nil
}

// schema finds a type at the last place that has it, of Steve, management, project, cluster.
func (c *cli) schema(name string) (cliSchema, error) {
	for _, api := range c.apis {
		if s, ok := api[name]; ok {
			return s, nil
		}
	}
	return cliSchema{}, fmt.Errorf("unknown schema type %s", name)
}

// lookup finds a resource by id or name among types.
func (c *cli) lookup(name string, types ...string) (cliResource, error) {
	var found []cliResource
	for _, typ := range types {
		s, err := c.schema(typ)
		if err != nil {
			return cliResource{}, err
		}
		if !slices.Contains(s.ResourceMethods, "GET") || !slices.Contains(s.CollectionMethods, "GET") || s.Links["collection"] == "" {
			return cliResource{}, fmt.Errorf("%s can not be looked up by ID", typ)
		}
		r, err := c.get(s.Links["collection"] + "/" + url.PathEscape(name))
		if err == nil && r.ID == name {
			return r, nil
		}
		if e, ok := errors.AsType[*cliError](err); err != nil && (!ok || e.status != 404) {
			return cliResource{}, err
		}
		items, err := c.list(s.Links["collection"] + "?name=" + url.QueryEscape(name) + "&removed_null=1")
		if e, ok := errors.AsType[*cliError](err); err != nil && (!ok || e.status != 404) {
			return cliResource{}, err
		}
		if len(items) > 1 {
			return cliResource{}, fmt.Errorf("multiple resources of type %s found for name %s", typ, name)
		}
		found = append(found, items...)
	}
	switch len(found) {
	case 0:
		return cliResource{}, fmt.Errorf("not found: %s", name)
	case 1:
		return found[0], nil
	}
	return cliResource{}, fmt.Errorf("multiple resources found for name %s", name)
}

func newCLI(b *apibed.Bed, token string) *cli {
	b.T.Helper()
	server := httptest.NewTLSServer(b.Handler)
	b.T.Cleanup(server.Close)
	return &cli{t: b.T, server: server, token: token}
}

// contextPattern is what the CLI checks before any request.
var contextPattern = regexp.MustCompile(`^(local|c-[a-z0-9]{5}|c-m-[a-z0-9]{8}):(p|project)-[a-z0-9]{5}$`)

// login is "login --token" without --context: the project that it takes, or why it asks.
func (c *cli) login() (string, error) {
	schemas, err := c.load("/v3")
	if err != nil {
		return "", err
	}
	for _, typ := range []string{"project", "cluster"} {
		if s := schemas[typ]; !slices.Contains(s.CollectionMethods, "GET") || !slices.Contains(s.ResourceMethods, "GET") {
			return "", fmt.Errorf("schema %s cannot be read", typ)
		}
	}
	projects, err := c.list(schemas["project"].Links["collection"] + "?" + apibed.ListQ)
	if err != nil {
		return "", err
	}
	switch {
	case len(projects) == 0:
		return "no project", nil
	case len(projects) == 1:
		return projects[0].ID, nil
	case len(projects) == 2 && projects[0].Name == "Default" && projects[1].Name == "System",
		len(projects) == 2 && projects[0].Name == "System" && projects[1].Name == "Default":
		i := slices.IndexFunc(projects, func(p cliResource) bool { return p.Name == "Default" })
		return projects[i].ID, nil
	}
	if _, err := c.list(schemas["cluster"].Links["collection"] + "?" + apibed.ListQ); err != nil {
		return "", err
	}
	return fmt.Sprintf("asks for one of %d", len(projects)), nil
}

func TestCLILogin(t *testing.T) {
	b := apibed.New(t)
	c := newCLI(b, b.Admin)
	if got, err := c.login(); err != nil || got != "no project" {
		t.Errorf("without a cluster: %q %v", got, err)
	}
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	project, err := c.login()
	if err != nil || !contextPattern.MatchString(project) {
		t.Errorf("with one cluster: %q %v", project, err)
	}
	if want := apibed.BuiltIn("c-m-h4rb0r55").Default; project != want {
		t.Errorf("project %q is not Default, %q", project, want)
	}
	b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	if got, err := c.login(); err != nil || got != "asks for one of 4" {
		t.Errorf("with two clusters: %q %v", got, err)
	}

	c.trace = nil
	if _, err := c.load("/v3"); err != nil { // login --context
		t.Fatal(err)
	}
	if p, err := c.get("/v3/projects/" + project); err != nil || p.ID != project {
		t.Errorf("%+v %v", p, err)
	}
	want := []string{"GET /v3", "GET " + c.server.URL + "/v3/schemas", "GET /v3/projects/" + project}
	for i := range want {
		want[i] = strings.Replace(want[i], c.server.URL, "", 1)
	}
	if !slices.Equal(c.trace, want) {
		t.Errorf("trace %q, want %q", c.trace, want)
	}

	stranger := &cli{t: t, server: c.server, token: b.User}
	if got, err := stranger.login(); err != nil || got != "no project" {
		t.Errorf("user without rights: %q %v", got, err)
	}
	if _, err := stranger.get("/v3/projects/" + project); status(err) != 404 {
		t.Errorf("a foreign context: %v", err)
	}
	bad := &cli{t: t, server: c.server, token: b.Admin + "x"}
	if _, err := bad.login(); status(err) != 401 {
		t.Errorf("a bad token: %v", err)
	}
}

func status(err error) int {
	if e, ok := errors.AsType[*cliError](err); ok {
		return e.status
	}
	return 0
}

// TestCLICommands runs the recorded requests of each command.
func TestCLICommands(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	defaultProject := cl.Projects.Default
	fresh := func(t *testing.T) *cli {
		c := newCLI(b, b.Admin)
		c.t, c.context = t, defaultProject
		if err := c.preamble(); err != nil {
			t.Fatal(err)
		}
		c.trace = nil
		return c
	}
	collection := func(t *testing.T, c *cli, typ string) string {
		t.Helper()
		s, err := c.schema(typ)
		if err != nil {
			t.Fatal(err)
		}
		return s.Links["collection"]
	}

	t.Run("clusters ls", func(t *testing.T) {
		c := fresh(t)
		list, err := c.list(collection(t, c, "cluster") + "?" + apibed.ListQ)
		if err != nil || len(list) != 2 || list[0].Name != "harbour" || list[0].State != "active" || list[0].NodeCount != 9 || list[0].Provider != "k3s" {
			t.Errorf("%+v %v", list, err)
		}
		if want := "GET /v3/clusters?" + apibed.ListQ; !slices.Equal(c.trace, []string{want}) {
			t.Errorf("trace %q", c.trace)
		}
	})
	t.Run("nodes", func(t *testing.T) {
		c := fresh(t)
		list, err := c.list(collection(t, c, "node") + "?clusterId=" + cl.ID + "&" + apibed.ListQ)
		if err != nil || len(list) != 8 { // the one that is being removed is left out
			t.Fatalf("%d nodes, %v", len(list), err)
		}
		i := slices.IndexFunc(list, func(n cliResource) bool { return n.NodeName == "host-1.lan" })
		if i < 0 || list[i].Name != "host-1" || list[i].State != "active" || list[i].RequestedHostname != "host-1" || !list[i].ControlPlane {
			t.Errorf("%+v", list)
		}
	})
	t.Run("nodes delete by any name", func(t *testing.T) {
		c := fresh(t)
		for _, name := range []string{"host-1", "host-1.lan", cl.ID + ":m-0f31c2aa9d10"} {
			if n, err := c.lookup(name, "node"); err != nil || n.Links["remove"] == "" {
				t.Errorf("%s: %+v %v", name, n.Links, err)
			}
		}
	})
	t.Run("context current", func(t *testing.T) {
		c := fresh(t)
		if x, err := c.get("/v3/clusters/" + cl.ID); err != nil || x.Name != "harbour" {
			t.Errorf("%+v %v", x, err)
		}
		if x, err := c.get("/v3/projects/" + defaultProject); err != nil || x.Name != "Default" {
			t.Errorf("%+v %v", x, err)
		}
	})
	t.Run("clusters import and add-node", func(t *testing.T) {
		c := fresh(t)
		found, err := c.lookup("quay", "cluster")
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.get(found.Links["self"])
		if err != nil || x.Driver != "" {
			t.Fatalf("driver %q, %v", x.Driver, err)
		}
		tokens, err := c.list(collection(t, c, "clusterRegistrationToken") + "?clusterId=" + x.ID + "&" + apibed.ListQ)
		if err != nil || len(tokens) != 1 {
			t.Fatalf("%+v %v", tokens, err)
		}
		if tok := tokens[0]; len(tok.Token) != 54 || !strings.Contains(tok.Command, "is not imported") || tok.InsecureCommand != tok.Command || !strings.Contains(tok.NodeCommand, "--token "+tok.Token) {
			t.Errorf("%+v", tok)
		}
		want := []string{
			"GET /v3/clusters/quay", "GET /v3/clusters?name=quay&removed_null=1", "GET /v3/clusters/c-m-qqqqqqqq",
			"GET /v3/clusterregistrationtokens?clusterId=c-m-qqqqqqqq&" + apibed.ListQ,
		}
		if !slices.Equal(c.trace, want) {
			t.Errorf("trace %q", c.trace)
		}
		posted, err := c.one("POST", collection(t, c, "clusterRegistrationToken"), `{"links":null,"actions":null,"clusterId":"c-m-qqqqqqqq"}`)
		if err != nil || posted.NodeCommand == "" || !strings.Contains(posted.Command, "is not imported") {
			t.Errorf("%+v %v", posted, err)
		}
	})
	t.Run("clusters kubeconfig", func(t *testing.T) {
		c := fresh(t)
		found, err := c.lookup("harbour", "cluster")
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.get(found.Links["self"])
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.one("POST", x.Actions["generateKubeconfig"], "")
		if err != nil {
			t.Fatal(err)
		}
		var k management.Kubeconfig
		if err := yaml.Unmarshal([]byte(out.Config), &k); err != nil {
			t.Fatal(err)
		}
		ca, err := base64.StdEncoding.DecodeString(k.Clusters[0].Cluster.CAData)
		if err != nil || string(ca) != apibed.CACerts || k.Clusters[0].Cluster.Server != "https://drover.example/k8s/clusters/"+cl.ID || k.CurrentContext != "harbour" {
			t.Errorf("%s", out.Config)
		}
		name, _, _ := strings.Cut(k.Users[0].User.Token, ":")
		if len(k.Users) != 1 || strings.Count(k.Users[0].User.Token, ":") != 1 {
			t.Errorf("users %+v", k.Users)
		}
		if tok, err := c.get("/v3/tokens/" + name); err != nil || tok.Expired || tok.TTL != (30*24*time.Hour).Milliseconds() {
			t.Errorf("its token: %+v %v", tok, err)
		}
		if _, err := b.Auth.Check(k.Users[0].User.Token); err != nil {
			t.Errorf("its token: %v", err)
		}
	})
	t.Run("wait", func(t *testing.T) {
		c := fresh(t)
		found, err := c.lookup("harbour", "cluster", "project")
		if err != nil || found.State != "active" || found.Transitioning == "yes" {
			t.Errorf("%+v %v", found, err)
		}
		want := []string{
			"GET /v3/clusters/harbour", "GET /v3/clusters?name=harbour&removed_null=1", "GET /v3/projects/harbour", "GET /v3/projects?name=harbour&removed_null=1",
		}
		if !slices.Equal(c.trace, want) {
			t.Errorf("trace %q", c.trace)
		}
	})
	t.Run("projects", func(t *testing.T) {
		c := fresh(t)
		list, err := c.list(collection(t, c, "project") + "?clusterId=" + cl.ID + "&" + apibed.ListQ)
		if err != nil || len(list) != 2 || list[0].Name != "Default" || list[1].Name != "System" || list[0].ClusterID != cl.ID {
			t.Errorf("%+v %v", list, err)
		}
	})
	t.Run("settings", func(t *testing.T) {
		c := fresh(t)
		if list, err := c.list(collection(t, c, "setting") + "?" + apibed.ListQ); err != nil || len(list) < 20 {
			t.Errorf("%d settings, %v", len(list), err)
		}
		s, err := c.lookup("server-url", "setting")
		if err != nil || s.Value != "https://drover.example" {
			t.Fatalf("%+v %v", s, err)
		}
		if _, err := c.one("PUT", s.Links["update"], `{"value":"foo"}`); status(err) != 422 || !strings.Contains(err.Error(), "https://") {
			t.Errorf("a bad value: %v", err)
		}
		if s, err := c.one("PUT", s.Links["self"], `{"value":"https://drover.example"}`); err != nil || s.Value != "https://drover.example" {
			t.Errorf("%+v %v", s, err)
		}
	})
	t.Run("machines", func(t *testing.T) {
		c := fresh(t)
		if list, err := c.list(collection(t, c, "cluster.x-k8s.io.machine") + "?" + apibed.ListQ); err != nil || len(list) != 9 {
			t.Errorf("%d machines, %v", len(list), err)
		}
		if c.trace[0] != "GET /v1/cluster.x-k8s.io.machines?"+apibed.ListQ {
			t.Errorf("trace %q", c.trace)
		}
	})
	t.Run("inspect without a type", func(t *testing.T) {
		types := []string{"cluster", "node", "project", "secret", "namespacedSecret", "workload", "persistentVolume", "storageClass", "namespace"}
		c := fresh(t)
		// Of a cluster that is away it is not known whether a namespace has the name: to say that it has not would have
		// Terraform forget it. With --type it is found.
		if _, err := c.lookup("harbour", types...); status(err) != 503 {
			t.Errorf("while the cluster is away: %v", err)
		}
		if x, err := c.lookup("harbour", "cluster"); err != nil || x.Type != "cluster" {
			t.Errorf("%+v %v", x, err)
		}
		b.InCluster()
		defer func() { b.Client = nil }()
		if x, err := c.lookup("harbour", types...); err != nil || x.Type != "cluster" {
			t.Errorf("%+v %v", x, err)
		}
		if x, err := c.lookup("host-1", types...); err != nil || x.Type != "node" {
			t.Errorf("%+v %v", x, err)
		}
		for _, odd := range []string{"a/b", "a b", "ä", "%2F", "x?y", "..", "."} {
			if _, err := c.lookup(odd, types...); err == nil || !strings.HasPrefix(err.Error(), "not found") {
				t.Errorf("%q: %v", odd, err)
			}
		}
		if x, err := c.lookup(cl.ID+":default-token", "clusterRegistrationToken"); err != nil || x.NodeCommand == "" {
			t.Errorf("%+v %v", x, err)
		}
	})
	t.Run("kubectl", func(t *testing.T) {
		c := fresh(t)
		name, _, _ := strings.Cut(b.Admin, ":")
		if tok, err := c.get("/v3/tokens/" + name); err != nil || tok.Enabled == nil || !*tok.Enabled {
			t.Errorf("%+v %v", tok, err)
		}
	})
	t.Run("older CLIs list node pools first", func(t *testing.T) {
		c := fresh(t)
		if list, err := c.list(collection(t, c, "nodePool") + "?clusterId=" + cl.ID + "&" + apibed.ListQ); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}
	})
	t.Run("up is not supported", func(t *testing.T) {
		if _, err := fresh(t).schema("composeConfig"); err == nil {
			t.Error("there is a schema")
		}
	})
	t.Run("namespaces of a cluster that is away", func(t *testing.T) {
		c := fresh(t)
		_, err := c.list(collection(t, c, "namespace") + "?" + apibed.ListQ)
		if status(err) != 503 || !strings.Contains(err.Error(), "no tunnel is open") {
			t.Errorf("%v", err)
		}
	})
}

func TestCLIWithoutContext(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	c := newCLI(b, b.Admin)
	if err := c.preamble(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.trace, "GET /v3/clusters/") || !slices.Contains(c.trace, "GET /v3/projects/") {
		t.Errorf("trace %q", c.trace)
	}
	if list, err := c.list("/v3/clusters?" + apibed.ListQ); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	for _, api := range c.apis[:2] {
		for _, repeated := range []string{"node", "project", "cluster"} {
			if _, ok := api[repeated]; ok {
				t.Errorf("a sub-API repeats %s", repeated)
			}
		}
	}
}

// TestCLIContextGone: after the context's cluster was deleted every command ends in one clear 404.
func TestCLIContextGone(t *testing.T) {
	b := apibed.New(t)
	c := newCLI(b, b.Admin)
	c.context = "c-m-gonegone:p-xxxxx"
	if err := c.preamble(); status(err) != 404 || !strings.Contains(err.Error(), "there is no cluster") {
		t.Errorf("%v", err)
	}
}

// TestCLIStandardUser: for a user without rights a name is "not found", never refused.
func TestCLIStandardUser(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	c := newCLI(b, b.User)
	if err := c.preamble(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"harbour", "c-m-h4rb0r55", "nowhere"} {
		if _, err := c.lookup(name, "cluster", "node", "project"); err == nil || err.Error() != "not found: "+name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, target := range []string{"/v3/clusters?", "/v3/nodes?", "/v3/projects?", "/v3/clusterregistrationtokens?"} {
		if list, err := c.list(target + apibed.ListQ); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v %v", target, list, err)
		}
	}
	if list, err := c.list("/v3/settings?" + apibed.ListQ); err != nil || len(list) == 0 || list[0].Links["update"] != "" {
		t.Errorf("settings: %v", err)
	}
}

// TestCLIWaitFollowsACluster: what "wait" sees while a cluster comes up, and while it fails.
func TestCLIWaitFollowsACluster(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	c := newCLI(b, b.Admin)
	for _, s := range []struct {
		name  string
		shape func(*records.Cluster)
		ends  string
	}{
		{"pending", func(*records.Cluster) {}, ""},
		{"provisioning", func(x *records.Cluster) { x.Status.State = "provisioning" }, ""},
		{"failed while provisioning", func(x *records.Cluster) { x.Status.Failed = true }, ""},
		{"failed in an update", func(x *records.Cluster) { x.Status.State = "updating" }, "error"},
		{"active", apibed.Active, "active"},
		{"unavailable", func(x *records.Cluster) { x.Status.State, x.Status.Ready = "unavailable", false }, ""},
		{"being removed", func(x *records.Cluster) { x.Deleting = apibed.Start }, ""},
	} {
		if _, err := b.State.Clusters.Modify(t.Context(), cl.Key(), func(x records.Cluster) (records.Cluster, error) { s.shape(&x); return x, nil }); err != nil {
			t.Fatal(err)
		}
		x, err := c.get("/v3/clusters/" + cl.ID)
		if err != nil {
			t.Fatal(err)
		}
		ends := ""
		switch { // as the CLI decides
		case x.State == "active" && x.Transitioning != "yes":
			ends = "active"
		case x.Transitioning == "error" && x.State != "provisioning":
			ends = "error"
		}
		if ends != s.ends || x.Transitioning == "error" && x.TransitioningMessage == "" {
			t.Errorf("%s: state %s, transitioning %s %q", s.name, x.State, x.Transitioning, x.TransitioningMessage)
		}
	}
}

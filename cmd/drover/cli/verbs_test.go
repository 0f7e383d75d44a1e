package cli

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/apibed"
)

// greeting is what a verb of a test takes, and answers with.
type greeting struct {
	Word string `json:"word"`
	Name string `json:"name,omitempty"`
}

// madeUp is a verb that no one has but a test, and what the server does for it.
func madeUp(of *native.Clusters) api.Verb {
	greet := verbs.Verb{
		Name: "greet", Of: verbs.Cluster, Path: "greet", Right: "update", Summary: "Greet a cluster", Body: greeting{}, Answer: greeting{},
		Inputs: []verbs.Input{
			{Name: "word", Flag: "with", Label: "With the word", Help: "what is called out"},
			{Name: "never", Label: "Never asked for", Help: "nothing", Fits: func(verbs.Object) bool { return false }},
			{Name: "loud", Query: true, Kind: verbs.Tick, Label: "Loudly", Help: "so that all hear it"},
		},
		Fits:    func(o verbs.Object) bool { return o.Cluster.Name != "quay" },
		Confirm: func(o verbs.Object, _ url.Values) string { return o.String() + " would be greeted; say --yes to do it" },
		Page:    verbs.Page{Title: "Greet", About: "The cluster is greeted.", Done: "The cluster has been greeted."},
		Command: verbs.Command{
			Line: "clusters greet NAME", Short: "Greet a cluster", Failed: "greet NAME",
			Report: func(o verbs.Object, answer any) []string { return []string{fmt.Sprintf("%s: %v", o, answer)} },
		},
	}
	do := func(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
		var g greeting
		if err := json.NewDecoder(c.R.Body).Decode(&g); err != nil {
			return route.Answer{}, err
		}
		if c.Query().Get("loud") == "true" {
			g.Word = strings.ToUpper(g.Word)
		}
		g.Name = d.Value.Name
		return route.Answer{Status: http.StatusOK, Body: g}, nil
	}
	return api.Verb{Verb: greet, Do: func(c *route.Call) (route.Answer, error) { return route.Of(of.Find, do)(c) }}
}

// TestAMadeUpVerb is found on all surfaces: its route with the right that it needs, its form on the page with the command that does the same,
// and that command with its flags, its question and its completion. TestAMadeUpVerbIsDescribed, beside the API, has its description.
func TestAMadeUpVerb(t *testing.T) {
	var clusters native.Clusters
	made := madeUp(&clusters)
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Ping: time.Hour, Verbs: []api.Verb{made}})
	clusters.Common = &native.Common{State: b.State}
	apibed.Harbour(b)
	const path = "/v1-drover/clusters/fleet-default/harbour/greet"
	if r := b.Request("POST", path, b.User, `{"word":"ahoy"}`); r.Status != http.StatusNotFound {
		t.Errorf("a user who does not see the cluster: %d", r.Status)
	}
	if r := b.Want(200, "POST", path+"?loud=true", `{"word":"ahoy"}`); r.Text("word") != "AHOY" || r.Text("name") != "harbour" {
		t.Errorf("%s", r.Raw)
	}

	const form = "do/greet/fleet-default/harbour"
	if page := string(b.Look("clusters/fleet-default/harbour", b.Admin).Raw); !strings.Contains(page, `href="/dashboard/`+form+`"`) {
		t.Error("the page of the cluster does not offer it")
	}
	page := string(b.Look(form+"?word=ahoy&loud=on", b.Admin).Raw)
	for _, want := range []string{"The cluster is greeted.", "With the word", "Loudly", "drover clusters greet harbour --yes --with ahoy --loud"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the form:\n%s", want, page)
		}
	}
	if strings.Contains(page, "Never asked for") {
		t.Error("the form asks for what does not fit the cluster")
	}
	if strings.Contains(string(b.Look("clusters/fleet-default/quay", b.Admin).Raw), "do/greet/") || !strings.Contains(string(b.Look("do/greet/fleet-default/quay", b.Admin).Raw), "makes no sense now") {
		t.Error("it is offered where it makes no sense")
	}
	given := b.Hidden(page)
	given.Set("word", "ahoy")
	if r := b.Post(form, b.Admin, given); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("without the name of the cluster: %d", r.Status)
	}
	given.Set("sure", "harbour")
	if r := b.Post(form, b.Admin, given); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/clusters/fleet-default/harbour?done=greet" {
		t.Errorf("%d, to %s", r.Status, r.Header.Get("Location"))
	}
	if page := string(b.Look("clusters/fleet-default/harbour?done=greet", b.Admin).Raw); !strings.Contains(page, "The cluster has been greeted.") {
		t.Error("the next page does not say that it is done")
	}

	run := commandsOf(t, b, append(verbs.All(), made.Verb))
	for _, c := range []struct{ args, out, err string }{
		{"clusters greet harbour --yes --with ahoy --loud", "cluster harbour: {AHOY harbour}", ""},
		{"clusters greet harbour --yes --with ahoy -o json", `"word": "ahoy"`, ""},
		{"clusters greet harbour", "", "cluster harbour would be greeted; say --yes to do it"},
		{"clusters greet harbur --yes", "", "did you mean harbour"},
		{"clusters greet --yes", "", "NAME"},
		{"clusters greet harbour --laud", "", "--loud"},
		{"clusters greet --help", "what is called out", ""},
		{"__complete clusters greet h", "harbour", ""},
		{"__complete clusters gr", "greet\tGreet a cluster", ""},
	} {
		out, err := run(strings.Fields(c.args)...)
		if !strings.Contains(out, c.out) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}

// commandsOf runs command lines with verbs against a bed, as its administrator.
func commandsOf(t *testing.T, b *apibed.Bed, all []verbs.Verb) func(args ...string) (string, error) {
	t.Helper()
	server := httptest.NewTLSServer(b.Handler)
	t.Cleanup(server.Close)
	home := t.TempDir()
	ca := filepath.Join(home, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": b.Admin, "DROVER_CA_FILE": ca, "HOME": home}
	return func(args ...string) (string, error) {
		var out strings.Builder
		a := &app{Streams: Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, environ: func(name string) string { return environ[name] }, verbs: all}
		root := a.root()
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
}

// argumentsOf are the words of a command's line of usage before its flags.
func argumentsOf(cmd *cobra.Command) []string {
	line, _, _ := strings.Cut(cmd.Use, " --")
	return strings.Fields(line)[1:]
}

// TestCommandsOfVerbs: there is one for each, also for those whose command is written in the command line itself.
func TestCommandsOfVerbs(t *testing.T) {
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, environ: func(string) string { return "" }, verbs: verbs.All()}
	root := a.root()
	for _, v := range verbs.All() {
		call, arguments := v.Words()
		cmd, rest, err := root.Find(call)
		if err != nil || len(rest) > 0 || !cmd.Runnable() || !slices.Equal(argumentsOf(cmd), arguments) {
			t.Errorf("%s: %q is %q, and %q is left: %v", v.Name, v.Command.Line, cmd.UseLine(), rest, err)
			continue
		}
		for _, in := range v.Inputs {
			if shown := in.Label != "" || !v.Command.Own; shown && !in.Argument && cmd.Flags().Lookup(in.FlagName()) == nil {
				t.Errorf("%s: %q has no flag --%s", v.Name, v.Command.Line, in.FlagName())
			}
			if in.Empty != "" && cmd.Flags().Lookup(in.Empty) == nil {
				t.Errorf("%s: %q has no flag --%s", v.Name, v.Command.Line, in.Empty)
			}
		}
	}
}

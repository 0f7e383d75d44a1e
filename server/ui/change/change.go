// Package change is the editor of the page: a cluster's document, what is wrong with it at its line, what it would bring
// about on which hosts, and then the same applied. It goes by the API that the command line uses. What is applied is what
// was shown: a preview that has become another one since is shown again, and nothing is done.
package change

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/ui"
)

// Editor serves the pages on which clusters are made and changed.
type Editor struct {
	UI *ui.UI
	// Check reads documents, as the API does that takes them in.
	Check func(text []byte) error
	// Version is what a new cluster is offered.
	Version func() string

	once ui.Forms[applied]
}

// New makes the editor.
func New(page *ui.UI, now func() time.Time, check func([]byte) error, version func() string) *Editor {
	return &Editor{UI: page, Check: check, Version: version, once: ui.Forms[applied]{Now: now, Most: mostForms}}
}

// mostForms is how many forms are remembered.
const mostForms = 10_000

// Again names the notice for those whose form was applied before.
const Again, AgainNotice = "applied-before", "This was applied by the first press of the button. The second did nothing."

// applied is what a form came to that was to be applied: where it leads, or, when nothing was done, the status of its page.
type applied struct {
	to     string
	status int
}

// newCluster is the page of a new cluster; a cluster that exists is edited at its own address with /change behind it.
const newCluster = ui.Home + "new"

// view is the page of the editor.
type view struct {
	// Here is the page itself, and Form what proves that its form is of this page.
	Here, Form string
	// Text is the document as it is edited, Base as it was when it was loaded. Generation is the cluster's then.
	Text, Base string
	Generation int64
	// Name is that of a cluster that is there.
	Name string
	// Wrong are the faults of the text, and Fault is what is wrong besides.
	Wrong strictyaml.Errors
	Fault string
	// Meanwhile is what others have changed since the document was loaded, as a diff.
	Meanwhile string
	// Results are what would become of the documents; nil before they were looked at. Seen names them.
	Results []apitypes.ApplyResult
	Seen    string
	// Same says that nothing would change, Other that what would be done is not what was shown before.
	Same, Other bool
	// Key makes that it is applied once.
	Key string
	// Queue has the change wait while another operation is under way.
	Queue bool
}

// clusterOf is the cluster of an address, in the API; empty for a new one.
func clusterOf(c *route.Call) string {
	if c.Param("name") == "" {
		return ""
	}
	return "/v1-drover/clusters/" + url.PathEscape(c.Param("namespace")) + "/" + url.PathEscape(c.Param("name"))
}

// Form is the handler of GET /dashboard/clusters/{namespace}/{name}/change and of GET /dashboard/new.
func (e *Editor) Form(c *route.Call) (route.Answer, error) {
	v, err := e.begin(c)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, e.show(c, http.StatusOK, v)
}

// begin is the page with the document as it is.
func (e *Editor) begin(c *route.Call) (view, error) {
	v := view{Here: newCluster, Form: auth.FormToken(c.R), Key: ui.NewFormKey()}
	if at := clusterOf(c); at != "" {
		v.Name, v.Here = c.Param("name"), ui.ClusterURL(c.Param("namespace")+"/"+c.Param("name"))+"/change"
		var err error
		if v.Base, v.Generation, err = document(c, at); err != nil {
			return v, err
		}
		v.Text = v.Base
	} else {
		v.Text = strings.ReplaceAll(sample, "VERSION", e.Version())
	}
	return v, nil
}

// sample is what the editor of a new cluster begins with.
const sample = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: harbour
spec:
  kubernetesVersion: VERSION
  rkeConfig:
    machineGlobalConfig: {}
`

// document is the document of a cluster as it is now, with its generation.
func document(c *route.Call, at string) (text string, generation int64, err error) {
	reply, err := c.Ask(route.Asked{Method: http.MethodGet, Target: at})
	if err != nil {
		return "", 0, err
	}
	var cluster apitypes.Cluster
	if err := reply.Decode(&cluster); err != nil {
		return "", 0, err
	}
	reply, err = c.Ask(route.Asked{Method: http.MethodGet, Target: at + "/document?_format=yaml"})
	if err != nil {
		return "", 0, err
	}
	if e := reply.Refused(); e != nil {
		return "", 0, e
	}
	return string(reply.Body), cluster.Generation, nil
}

func (e *Editor) show(c *route.Call, status int, v view) error {
	page := ui.View{
		Title: "New cluster", Template: "change", Data: v, Section: "clusters", Trail: []ui.Link{{Title: "Clusters", URL: ui.Home + "clusters"}},
		Command: "drover apply -f cluster.yaml",
	}
	if v.Name != "" {
		page.Title = "Change " + v.Name
		page.Trail = append(page.Trail, ui.Link{Title: v.Name, URL: strings.TrimSuffix(v.Here, "/change")})
	}
	if v.Results == nil || v.Seen == "" {
		page.Command += " --dry-run"
	}
	return e.UI.Show(c, status, page)
}

// maxForm bounds the form: the document twice, each of its bytes as three.
const maxForm = 6*clusterspec.MaxSize + 64<<10

// Send is the handler of POST to the addresses of Form: it shows what the document would bring about, and applies it when
// that is what the form has seen.
func (e *Editor) Send(c *route.Call) (route.Answer, error) {
	v, err := e.begin(c)
	if err != nil {
		return route.Answer{}, err
	}
	form, err := ui.ReadForm(c, maxForm)
	if err != nil {
		return route.Answer{}, err
	}
	v.Text, v.Queue = form.Get("text"), form.Get("queue") == "on"
	if base := form.Get("base"); v.Name != "" && base != v.Base {
		v.Meanwhile = unified(base, v.Base)
	}
	if form.Get("act") == "apply" {
		o, first, err := e.once.Do(c, form.Get("key"), func() (applied, error) { return e.checked(c, &v, form.Get("seen")) })
		switch {
		case err != nil:
			return route.Answer{}, err
		case o.to != "" && first:
			return e.UI.LeadTo(c, o.to), nil
		case o.to != "":
			return e.UI.LeadTo(c, o.to+"?done="+Again), nil
		case first:
			return route.Answer{}, e.show(c, o.status, v)
		}
	}
	status, err := e.look(c, &v)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, e.show(c, status, v)
}

// checked applies the document when that does what was seen.
func (e *Editor) checked(c *route.Call, v *view, seen string) (applied, error) {
	status, err := e.look(c, v)
	if err != nil || v.Results == nil || v.Fault != "" || v.Same {
		return applied{status: status}, err
	}
	if v.Meanwhile != "" || seen != v.Seen {
		v.Other = true
		return applied{status: http.StatusConflict}, nil
	}
	return e.apply(c, v)
}

// look asks what the document would bring about.
func (e *Editor) look(c *route.Call, v *view) (status int, err error) {
	reply, err := c.Ask(v.asked("dryRun=true"))
	if err != nil {
		return 0, err
	}
	if refused := reply.Refused(); refused != nil {
		v.refused(refused)
		return refused.Status, nil
	}
	var answer apitypes.Applied
	if err := reply.Decode(&answer); err != nil {
		return 0, err
	}
	if v.Name != "" && !only(answer.Results, v.Name) {
		v.Fault = "This page is that of cluster " + v.Name + ": the document has to describe it, and no other cluster. A new one is made on a page of its own."
		return http.StatusUnprocessableEntity, nil
	}
	v.Results, v.Seen, v.Same = answer.Results, seenOf(answer.Results), true
	for _, r := range answer.Results {
		v.Same = v.Same && r.Action == clusters.Unchanged
	}
	return http.StatusOK, nil
}

// only says that of clusters just this one is among the results.
func only(results []apitypes.ApplyResult, name string) bool {
	for _, r := range results {
		if r.Kind == "" && r.Name != name {
			return false
		}
	}
	return true
}

func (v *view) refused(e *norman.Error) {
	raw, ok := e.Details["errors"].(json.RawMessage)
	if !ok || json.Unmarshal(raw, &v.Wrong) != nil || len(v.Wrong) == 0 {
		v.Fault = ui.Sentence(strings.TrimSuffix(e.Error(), "."))
	}
}

// asked is the request that takes the document in.
func (v *view) asked(query string) route.Asked {
	if v.Queue {
		query += "&queue=true"
	}
	return route.Asked{Method: http.MethodPost, Target: "/v1-drover/apply?" + query, Type: "application/yaml", Body: []byte(v.Text)}
}

// apply does what was shown, and leads to the operation that does it, or to the cluster.
func (e *Editor) apply(c *route.Call, v *view) (applied, error) {
	reply, err := c.Ask(v.asked(e.unchanged(v)))
	if err != nil {
		return applied{}, err
	}
	if refused := reply.Refused(); refused != nil {
		v.refused(refused)
		v.Results = nil
		return applied{status: refused.Status}, nil
	}
	var answer apitypes.Applied
	if err := reply.Decode(&answer); err != nil {
		return applied{}, err
	}
	to := ui.Home + "clusters"
	for _, r := range answer.Results {
		if r.Kind == "" && to == ui.Home+"clusters" {
			to = ui.ClusterURL(r.Namespace + "/" + r.Name)
		}
		if r.Operation != "" {
			return applied{to: ui.OperationURL(r.Operation)}, nil
		}
	}
	return applied{to: to}, nil
}

// unchanged is the condition that no cluster was changed since it was looked at. Of several it is what the preview has.
func (e *Editor) unchanged(v *view) string {
	if v.Name != "" || len(v.Results) == 1 && v.Results[0].Action == clusters.Created {
		return "generation=" + strconv.FormatInt(v.Generation, 10)
	}
	return ""
}

// seenOf names what would be done, without what changes from one moment to the next: states, and which machine is due now.
func seenOf(results []apitypes.ApplyResult) string {
	sum := sha256.New()
	for _, r := range results {
		fmt.Fprintf(sum, "%s %s/%s %s %q\n", r.Kind, r.Namespace, r.Name, r.Action, r.Hosts)
		if r.Preview == nil {
			continue
		}
		p := apitypes.Preview{Machines: append([]apitypes.MachinePreview{}, r.Preview.Machines...)}
		for i := range p.Machines {
			p.Machines[i].Now, p.Machines[i].Again = false, false
		}
		text, _ := json.Marshal(p) // of texts, numbers and lists of them, which cannot fail
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// unified is what differs between two texts.
func unified(before, after string) string {
	text := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	for range 3 { // the lines that name the files
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// CheckText is the handler of POST /dashboard/check: what is wrong with a text, as {"errors": [{"line": 3, …}]}.
func (e *Editor) CheckText(c *route.Call) (route.Answer, error) {
	text, err := norman.ReadBody(c.W, c.R, clusterspec.MaxSize)
	if err != nil {
		return route.Answer{}, err
	}
	wrong := strictyaml.Errors{}
	if err := e.Check(text); err != nil {
		if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
			wrong = bad
		} else {
			wrong = append(wrong, strictyaml.Error{Reason: err.Error()})
		}
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{"errors": wrong}}, nil
}

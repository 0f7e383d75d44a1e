package verbs

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// example is an object of a kind.
func example(of Kind) Object {
	switch of {
	case Cluster:
		return Object{Cluster: &apitypes.Cluster{ID: "c-m-1", Namespace: "fleet-default", Name: "harbour", Distribution: "k3s"}}
	case Fleet:
		return Object{Fleet: &apitypes.Fleet{ID: "c-m-2", Namespace: "fleet-machines", Name: "edge", Machines: 2}}
	case Machine:
		return Object{Machine: &apitypes.Machine{ID: "fleet-default/custom-1", Name: "custom-1"}}
	default:
		return Object{Operation: &apitypes.Operation{OperationSummary: apitypes.OperationSummary{ID: "op-1"}}}
	}
}

// TestVerbs: each verb says all that the server, the page and the command line need of it.
func TestVerbs(t *testing.T) {
	names, places := map[string]bool{}, map[string]bool{}
	for _, v := range All() {
		if names[v.Name] {
			t.Errorf("%s is there twice", v.Name)
		}
		names[v.Name] = true
		if first := !places[v.At()]; !v.Begins && v.Answer != nil && first != (v.Summary != "") {
			t.Errorf("%s: of the verbs at %s the first has the summary, and no other: %q", v.Name, v.At(), v.Summary)
		}
		places[v.At()] = true
		if !slices.Contains([]string{"update", "remove", "action " + strings.TrimSuffix(v.Path, "/add")}, v.Right) {
			t.Errorf("%s needs %q", v.Name, v.Right)
		}
		if v.Page.Title == "" && v.Command.Own {
			v.Page = Page{Title: "none", About: "none", Done: "none"}
		}
		if v.Page.Title == "" || v.Page.About == "" || !v.Begins && !v.Page.Preview && v.Page.Done == "" {
			t.Errorf("%s: the page has %+v", v.Name, v.Page)
		}
		if _, asked := v.Body.(apitypes.Asked); asked != v.Begins {
			t.Errorf("%s sends %T, and begins an operation: %v", v.Name, v.Body, v.Begins)
		}
		command(t, v)
		inputs(t, v)
	}
}

func command(t *testing.T, v Verb) {
	t.Helper()
	call, arguments := v.Words()
	given := 0
	for _, in := range v.Inputs {
		if in.Argument {
			given++
		}
		if in.Help == "" && !in.Argument && !v.Command.Own {
			t.Errorf("%s: the flag --%s has no help", v.Name, in.FlagName())
		}
	}
	if len(call) < 2 || len(arguments) != 1+given {
		t.Errorf("%s: %q has %d words and the arguments %q", v.Name, v.Command.Line, len(call), arguments)
	}
	switch c := v.Command; {
	case c.Own:
	case c.Short == "" || c.Failed == "":
		t.Errorf("%s: the command has no help, or does not say what it failed at: %+v", v.Name, c)
	case v.Begins:
	case c.Report == nil || v.Answer == nil || len(c.Report(example(v.Of), v.Answer)) == 0:
		t.Errorf("%s says nothing of what came of it", v.Name)
	}
}

// inputs: each input of the body has a field there, of its kind.
func inputs(t *testing.T, v Verb) {
	t.Helper()
	given := url.Values{}
	for _, in := range v.Inputs {
		given.Set(in.Name, "true")
	}
	if v.Make != nil { // of which TestRequests has one
		return
	}
	body, err := v.Sent(given)
	if err != nil {
		t.Errorf("%s: %v", v.Name, err)
	}
	if v.Body != nil && reflect.TypeOf(body) != reflect.TypeOf(v.Body) {
		t.Errorf("%s sends %T, and would send %T", v.Name, body, v.Body)
	}
	target := v.Target(example(v.Of), given)
	for _, in := range v.Inputs {
		if text, _ := json.Marshal(body); in.Query != strings.Contains(target, in.Name+"=") || in.Query == strings.Contains(string(text), `"`+in.Name+`":`) {
			t.Errorf("%s: %s is not sent where it belongs: %s %s", v.Name, in.Name, target, text)
		}
	}
}

// TestRequests has a request of each kind of object.
func TestRequests(t *testing.T) {
	given := url.Values{"snapshot": {"s 1"}, "machines": {"pier-1", "pier-2"}, "noSnapshot": {"true"}, "force": {"true"}, "labels": {"rack=a", "disk-"}, "unknown": {"x"}}
	for name, want := range map[string]string{
		"pause":              `/v1-drover/clusters/fleet-default/harbour/pause null`,
		"restore":            `/v1-drover/clusters/fleet-default/harbour/operations?noSnapshot=true {"kind":"restore","snapshot":"s 1","machines":["pier-1","pier-2"]}`,
		"rotate-ca":          `/v1-drover/clusters/fleet-default/harbour/operations?noSnapshot=true {"kind":"rotate-certificates","ca":true}`,
		"unpin-fleet-agents": `/v1-drover/fleets/edge/agents/pin {"pinned":false}`,
		"remove-fleet":       `/v1-drover/fleets/edge/remove?force=true null`,
		"labels":             `/v1-drover/machines/fleet-default/custom-1/labels {"set":{"rack":"a"},"remove":["disk"]}`,
		"rejoin":             `/v1-drover/machines/fleet-default/custom-1/rejoin null`,
		"remove-machine":     `/v1-drover/machines/fleet-default/custom-1/remove?busy=refuse&force=true null`,
		"hurry":              `/v1-drover/operations/op-1/hurry null`,
	} {
		i := slices.IndexFunc(All(), func(v Verb) bool { return v.Name == name })
		if i < 0 {
			t.Errorf("there is no %s", name)
			continue
		}
		v := All()[i]
		body, err := v.Sent(given)
		text, _ := json.Marshal(body)
		if got := v.Target(example(v.Of), given) + " " + string(text); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	if _, err := (Verb{Name: "made-up", Body: apitypes.AskedPin{}, Inputs: []Input{{Name: "pined", Kind: Tick}}}).Sent(url.Values{"pined": {"true"}}); err == nil {
		t.Error("an input without a field is sent")
	}
	odd := Object{Cluster: &apitypes.Cluster{Namespace: "fleet-default", Name: "a/b?c"}}
	if got := odd.Path(); got != "/v1-drover/clusters/fleet-default/a%2Fb%3Fc" {
		t.Error(got)
	}
}

// TestFits: what makes no sense for an object now is not offered.
func TestFits(t *testing.T) {
	cluster := func(change func(*apitypes.Cluster)) Object {
		o := example(Cluster)
		change(o.Cluster)
		return o
	}
	operation := func(o apitypes.Operation) Object { return Object{Operation: &o} }
	now := time.Now()
	works, paused := cluster(func(*apitypes.Cluster) {}), cluster(func(c *apitypes.Cluster) { c.Paused = true })
	pinned := cluster(func(c *apitypes.Cluster) { c.Annotations = map[string]string{apitypes.PinAgents: "true"} })
	rke1, exported := cluster(func(c *apitypes.Cluster) { c.Distribution = apitypes.RKE1 }), cluster(func(c *apitypes.Cluster) { c.Exported = &apitypes.Exported{} })
	leaving := cluster(func(c *apitypes.Cluster) { c.Deleting = now })
	runs, failed := operation(apitypes.Operation{}), operation(apitypes.Operation{OperationSummary: apitypes.OperationSummary{State: apitypes.OperationFailed}})
	once := operation(apitypes.Operation{OperationSummary: apitypes.OperationSummary{State: apitypes.OperationFailed, Once: true}})
	waits := operation(apitypes.Operation{OperationSummary: apitypes.OperationSummary{Wait: &apitypes.Wait{Until: now}}})
	for name, c := range map[string]struct{ fits, not []Object }{
		"pause":                  {[]Object{works, pinned, rke1}, []Object{paused, exported, leaving}},
		"resume":                 {[]Object{paused}, []Object{works}},
		"pin-agents":             {[]Object{works, paused}, []Object{pinned, rke1}},
		"unpin-agents":           {[]Object{pinned}, []Object{works}},
		"rotate-encryption-keys": {[]Object{works, rke1}, []Object{exported, leaving}},
		"rotate-server-token":    {[]Object{works}, []Object{rke1}},
		"abort":                  {[]Object{runs, waits}, []Object{failed}},
		"retry":                  {[]Object{failed}, []Object{runs, once}},
		"hurry":                  {[]Object{waits}, []Object{runs, failed}},
	} {
		v := All()[slices.IndexFunc(All(), func(v Verb) bool { return v.Name == name })]
		for i, o := range c.fits {
			if !v.Fits(o) {
				t.Errorf("%s is not offered for %d", name, i)
			}
		}
		for i, o := range c.not {
			if v.Fits(o) {
				t.Errorf("%s is offered for %d, for which it makes no sense", name, i)
			}
		}
	}
}

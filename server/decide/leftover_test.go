package decide

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
)

// TestAFileThatLeavesTheSpecLeavesTheHost once, with the change that takes it out; one that was not written by a plan is
// not touched.
func TestAFileThatLeavesTheSpecLeavesTheHost(t *testing.T) {
	const ours, quietly = "/etc/large", `additionalManifest: "{apiVersion: v1, kind: Namespace, metadata: {name: extra}}", `
	spec := func(rke string) string {
		return `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {` + rke + `}}}`
	}
	both := `machineSelectorFiles: [{fileSources: [{secret: {name: files, items: [{key: small, path: /etc/small}, {key: large, path: /etc/large}]}}]}]`
	one := `machineSelectorFiles: [{fileSources: [{secret: {name: files, items: [{key: small, path: /etc/small}]}}]}]`

	s := snapshot(t, spec(both), nil)
	filesOf(&s, "1", "first", 1)
	change := func(text string) {
		t.Helper()
		known, err := versions.Load("")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := clusterspec.ParseSpec([]byte(text), known)
		if err != nil {
			t.Fatal(err)
		}
		s.Cluster.Spec = doc.Spec
		s.Cluster.Generation++
	}
	deliver := func(wants bool) Decision {
		t.Helper()
		d := Decide(s)
		if len(d.Machines) > 0 && d.Machines[0].Deliver != wants || len(d.Machines) == 0 && wants {
			t.Fatalf("a plan is delivered: %v, want %v", !wants, wants)
		}
		s = commit(s, d)
		return d
	}
	carriedOut := func() {
		s.Machines[0].Secret.Data[plans.KeyPlanState] = []byte(plans.StateSucceeded)
		outcome(healthy)(t, &s)
	}
	// file is what the delivered plan says of the file, and of how many others that it removes them.
	file := func() (f plans.File, removals int) {
		p, _ := pass.Delivered(s.Machines[0].Data())
		for _, one := range p.Files {
			if one.Path == ours {
				f = one
			}
			if one.Action == plans.ActionDelete {
				removals++
			}
		}
		return f, removals
	}
	deliver(true)
	carriedOut()
	deliver(false)

	change(spec(one))
	var changes []string
	for _, m := range Decide(s).Preview(s).Machines {
		changes = append(changes, m.Changes...)
	}
	if !slices.Contains(changes, "remove file /etc/large") {
		t.Errorf("the preview has %q", changes)
	}
	deliver(true)
	if f, n := file(); f.Action != plans.ActionDelete || n != 1 {
		t.Fatalf("the plan has %+v, and %d removals", f, n)
	}
	deliver(false) // its agent has not taken it

	change(spec(quietly + one))
	deliver(true) // nor the next one, which removes the file as well
	if f, n := file(); f.Action != plans.ActionDelete || n != 1 {
		t.Fatalf("the next plan has %+v, and %d removals", f, n)
	}
	carriedOut()
	deliver(false)

	change(spec(strings.Replace(quietly, "extra", "other", 1) + one))
	deliver(true)
	if f, n := file(); f.Path != "" || n != 0 {
		t.Errorf("a plan after that has %+v, and %d removals: what lies there now is not the cluster's", f, n)
	}
	carriedOut()
	deliver(false)

	change(spec(both))
	deliver(true)
	if f, n := file(); f.Content == "" || n != 0 {
		t.Errorf("wanted again, the plan has %+v, and %d removals", f, n)
	}
}

package clusters

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

const (
	fileCluster = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {
machineSelectorFiles: [{fileSources: [{secret: {name: files, items: [{key: a, path: /etc/a}]}}]}]}}}`
	fileSecret = `{apiVersion: v1, kind: Secret, metadata: {name: files, annotations: {rke.cattle.io/object-authorized-for-clusters: harbour}}, stringData: {a: first}}`
)

func (b *bed) stream(text string, dryRun bool) []asked.Result {
	b.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.Fatal(err)
	}
	stream, err := clusterspec.ParseStream([]byte(text), known)
	if err != nil {
		b.Fatal(err)
	}
	results, err := b.applier.ApplyStream(b.Context(), stream, asked.Request{Who: auth.Identity{UserID: "user-x", Admin: true}, DryRun: dryRun})
	if err != nil {
		b.Fatal(err)
	}
	return results
}

// fileA is what the machine's plan writes to /etc/a; empty when it has no plan or no such file.
func (b *bed) fileA() string {
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	p, err := plans.Parse(d.Value.Data[plans.KeyPlan])
	if err != nil {
		return ""
	}
	for _, f := range p.Files {
		if content, err := f.Bytes(); f.Path == "/etc/a" && err == nil {
			return string(content)
		}
	}
	return ""
}

// TestAChangedObjectReachesItsClusters: what a cluster waits for comes, changes, and cannot be taken away from it.
func TestAChangedObjectReachesItsClusters(t *testing.T) {
	b := newBed(t)
	b.run()
	const warning = "there is no secret fleet-default/files that you or cluster harbour may use; its machines get no plan before there is"
	if got := b.stream(fileCluster, false)[0].Warnings; len(got) != 1 || !strings.HasPrefix(got[0], warning) {
		t.Errorf("warnings: %q", got)
	}
	b.register()
	b.wait("an error", func(m records.Machine) bool {
		return m.Status.State == records.Failed && strings.Contains(m.Status.Cause, "there is no secret fleet-default/files")
	})
	results := b.stream(fileSecret, false)
	if diff := cmp.Diff([]asked.Result{{ApplyResult: apitypes.ApplyResult{Kind: "Secret", Namespace: "fleet-default", Name: "files", Action: asked.Created}}}, results, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if !b.eventually(func() bool { return b.fileA() == "first" }) {
		t.Fatal("the plan has not come")
	}
	if got := b.stream(fileSecret, false)[0].Action; got != asked.Unchanged {
		t.Errorf("the same again: %s", got)
	}
	if got := b.stream(strings.Replace(fileSecret, "first", "second", 1), false)[0].Action; got != asked.Configured {
		t.Errorf("a change: %s", got)
	}
	if !b.eventually(func() bool { return b.fileA() == "second" }) {
		t.Fatal("the change has not come")
	}
	var inUse *records.InUseError
	if err := asked.RemoveObject(t.Context(), b.state, "Secret/fleet-default/files"); !errors.As(err, &inUse) || !cmp.Equal(inUse.Clusters, []string{"fleet-default/harbour"}) {
		t.Errorf("removing what is in use: %v", err)
	}
	b.stream(strings.Replace(fileSecret, "name: files", "name: other", 1), false)
	if err := asked.RemoveObject(t.Context(), b.state, "Secret/fleet-default/other"); err != nil {
		t.Error(err)
	}
	if _, ok := b.state.Objects.Get("Secret/fleet-default/other"); ok {
		t.Error("it is still there")
	}
}

// TestDryRunSeesTheObjectsBesideIt: the preview of a stream is that of all its documents.
func TestDryRunSeesTheObjectsBesideIt(t *testing.T) {
	b := newBed(t)
	b.stream(harbour, false)
	b.register()
	revision := b.state.Store.Revision()
	results := b.stream(fileSecret+"\n---\n"+fileCluster, true)
	if warnings := results[len(results)-1].Warnings; len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	if b.state.Store.Revision() != revision {
		t.Error("a dry run has stored something")
	}
	preview := results[len(results)-1].Preview
	if preview == nil || len(preview.Machines) != 1 || !cmp.Equal(preview.Machines[0].Changes[:1], []string{"add file /etc/a"}) {
		t.Errorf("preview = %+v", preview)
	}
}

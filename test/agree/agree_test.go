// Package agree holds that two previews of one change say the same: the server's, which people see before an
// apply, and the host's, which rancher-system-agent plan prints from what is on its disk.
package agree

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

const (
	before = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: VERSION, rkeConfig: {}}}`
	after  = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: VERSION, rkeConfig: {
		machineGlobalConfig: {kubelet-arg: [max-pods=200]}, additionalManifest: "{apiVersion: v1, kind: Namespace, metadata: {name: extra}}",
		registries: {mirrors: {docker.io: {endpoint: ["https://mirror.lan"]}}}}}}`
)

func snapshot(t *testing.T, text string) pass.Snapshot {
	t.Helper()
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := clusterspec.ParseSpec([]byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	release, ok := known.Release(doc.Spec.KubernetesVersion)
	if !ok {
		t.Fatal("no data for " + doc.Spec.KubernetesVersion)
	}
	return pass.Snapshot{
		Now:     time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		Cluster: records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "u", Generation: 1}, ID: "c-m-1", Spec: doc.Spec},
		Secrets: &records.ClusterSecrets{ServerToken: "s", AgentToken: "a"}, Release: &release,
		Machines: []pass.Machine{{
			Machine: &records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "pier", UID: "m"}, Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}},
			Secret:  &records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: "pier-machine-plan"}},
		}},
	}
}

// delivered is the plan that a decision delivers, and its preview.
func delivered(t *testing.T, s pass.Snapshot) (*plans.Plan, *records.PlanSecret, decide.MachinePreview) {
	t.Helper()
	d := decide.Decide(s)
	shown := d.Preview(s).Machines
	if len(d.Machines) != 1 || !d.Machines[0].Deliver || len(shown) != 1 {
		t.Fatalf("the decision is\n%+v", d)
	}
	p, err := plans.Parse(d.Machines[0].Secret.Data[plans.KeyPlan])
	if err != nil {
		t.Fatal(err)
	}
	return p, d.Machines[0].Secret, shown[0]
}

func TestPreviewsAgree(t *testing.T) {
	for _, version := range []string{"v1.34.4+k3s1", "v1.34.4+rke2r1"} {
		t.Run(version, func(t *testing.T) {
			root, dir := t.TempDir(), t.TempDir()
			options := apply.Options{Root: root, LedgerDir: dir, WorkDir: dir}
			look := func(p *plans.Plan) apply.Preview {
				t.Helper()
				seen, err := apply.Look(t.Context(), options, apply.Delivery{Source: "remote", Plan: p, Checksum: "x"})
				if err != nil {
					t.Fatal(err)
				}
				return seen
			}
			s := snapshot(t, strings.ReplaceAll(before, "VERSION", version))
			first, secret, shown := delivered(t, s)
			agree(t, shown, look(first))

			// The host has performed it, and the cluster changes.
			for _, f := range first.Files {
				content, err := f.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(root, f.Path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			secret.Data[plans.KeyPlanState], secret.Data[plans.KeyAppliedPlan] = []byte(plans.StateSucceeded), secret.Data[plans.KeyPlan]
			s = snapshot(t, strings.ReplaceAll(after, "VERSION", version))
			s.Machines[0].Secret = secret
			second, _, shown := delivered(t, s)
			agree(t, shown, look(second))
		})
	}
}

// agree wants the same files and instructions in the same order from both.
func agree(t *testing.T, server decide.MachinePreview, host apply.Preview) {
	t.Helper()
	var said, does []string
	for _, change := range server.Changes {
		if !strings.Contains(change, " unit ") {
			said = append(said, change)
		}
	}
	for _, f := range host.Files {
		switch f.Action {
		case "create":
			does = append(does, "add file "+f.Path)
		case "replace":
			does = append(does, "change file "+f.Path)
		case "mkdir": // directories on the way are no change of the plan
		default:
			does = append(does, f.Action+" file "+f.Path)
		}
	}
	slices.Sort(does) // the server names files by their paths
	for _, in := range host.Instructions {
		does = append(does, "run instruction "+in.Name)
	}
	slices.SortStableFunc(said, func(a, b string) int { return order(a) - order(b) })
	slices.SortStableFunc(does, func(a, b string) int { return order(a) - order(b) })
	if diff := cmp.Diff(said, does); diff != "" {
		t.Errorf("-the server says +the host would do: %s", diff)
	}
}

// order has added files before changed ones before instructions.
func order(change string) int {
	return slices.IndexFunc([]string{"add ", "change ", "run "}, func(begin string) bool { return strings.HasPrefix(change, begin) })
}

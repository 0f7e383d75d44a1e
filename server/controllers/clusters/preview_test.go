package clusters

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

func (b *bed) dryRun(text string) asked.Result {
	b.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.Fatal(err)
	}
	docs, err := clusterspec.Parse([]byte(text), known)
	if err != nil {
		b.Fatal(err)
	}
	before, stored := b.state.Clusters.Get("fleet-default/harbour")
	results, err := b.applier.Apply(b.Context(), docs, asked.Request{Who: auth.Identity{UserID: "user-x", Admin: true}, DryRun: true})
	if err != nil {
		b.Fatal(err)
	}
	if after, still := b.state.Clusters.Get("fleet-default/harbour"); still != stored || after.Value.Generation != before.Value.Generation {
		b.Errorf("a dry run changed the store: %+v, then %+v", before, after)
	}
	return results[0]
}

// TestADryRunSaysWhatIsThenDone: files, unit and plan of the host are those of the plan that is delivered afterwards.
func TestADryRunSaysWhatIsThenDone(t *testing.T) {
	b := newBed(t)
	if r := b.dryRun(harbour); r.Action != asked.Created || r.Preview == nil || r.Preview.State != "pending" || len(r.Preview.Machines) != 0 {
		t.Errorf("a new cluster: %+v, %+v", r, r.Preview)
	}
	b.run()
	b.apply(harbour)
	b.register()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	b.agent(func(o *plans.Outcome) { o.State = plans.StateInProgress })
	if r := b.dryRun(harbour); r.Action != asked.Unchanged || r.Preview != nil {
		t.Errorf("what is applied already: %+v", r)
	}

	changed := strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {disable: [traefik]}}", 1)
	r := b.dryRun(changed)
	if r.Action != asked.Configured || r.Preview == nil || len(r.Preview.Machines) != 1 {
		t.Fatalf("dry run: %+v, %+v", r, r.Preview)
	}
	got := r.Preview.Machines[0]
	want := []string{"change file /etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "run instruction install", "restart unit k3s"}
	if got.ID != machineKey || !slices.Equal(got.Changes, want) {
		t.Errorf("the preview of the machine is %+v, want the changes %q", got, want)
	}
	if again := b.dryRun(changed); again.Preview.Machines[0].Plan != got.Plan {
		t.Errorf("two dry runs say plan %s and %s", got.Plan, again.Preview.Machines[0].Plan)
	}

	b.apply(changed)
	b.wait("the changed plan", func(records.Machine) bool { return b.planState() == plans.StatePending })
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	if sum := plans.Short(plans.Checksum(d.Value.Data[plans.KeyPlan])); sum != got.Plan {
		t.Errorf("plan %s was previewed, %s delivered", got.Plan, sum)
	}
}

package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// harbour is an active cluster with a machine in each state.
func harbour(b *bench) (records.Cluster, []records.Machine) {
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	b.addCluster("quay", "c-m-qqqqqqqq", nil)
	at := func(state records.MachineState, cause, waiting string) func(*records.Machine) {
		return func(m *records.Machine) {
			m.Status.Condition = records.Condition{State: state, Cause: cause, WaitingFor: waiting}
			m.Status.Since = start.Add(time.Minute)
		}
	}
	machines := []records.Machine{
		b.addMachine(cl, "0f31c2aa9d10", func(m *records.Machine) {
			at(records.Active, "", "")(m)
			m.Address, m.InternalAddress, m.NodeName = []string{"198.51.100.7"}, []string{"192.0.2.10"}, "host-1"
			m.NodeLabels, m.NodeTaints = map[string]string{"rack": "7"}, []records.Taint{{Key: "a", Effect: "NoSchedule"}}
			m.Labels = map[string]string{"rke.cattle.io/etcd-role": "true"}
			m.Status.Node = &records.NodeRef{Name: "host-1.lan", UID: "n1", ProviderID: "k3s://host-1.lan", KubeletVersion: "v1.34.4+k3s1", Ready: true}
			m.Status.History = []records.Transition{{State: records.Registering, At: start}, {State: records.Active, At: start.Add(time.Minute)}}
		}),
		b.addMachine(cl, "000000000001", nil),
		b.addMachine(cl, "000000000002", at(records.WaitingForPlan, "machine custom-000000000002 waits for the first control plane", "the control plane on host-1")),
		b.addMachine(cl, "000000000003", at(records.ApplyingPlan, "", "the agent on 192.0.2.13")),
		b.addMachine(cl, "000000000004", at(records.WaitingForProbes, "probe kubelet fails", "kubelet")),
		b.addMachine(cl, "000000000005", at(records.WaitingForNode, "waiting to register with Kubernetes", "the node")),
		b.addMachine(cl, "000000000006", func(m *records.Machine) {
			at(records.Failed, "install of custom-000000000006 failed with exit code 7", "")(m)
			m.Status.NextStep = "read the output"
			m.Status.LastFailure = &records.PlanFailure{Checksum: "abc", At: start, Instruction: "install", Output: "no space left"}
		}),
		b.addMachine(cl, "000000000007", func(m *records.Machine) { m.Deleting = start.Add(2 * time.Minute) }),
		b.addMachine(cl, "000000000008", func(m *records.Machine) {
			at(records.Active, "", "")(m)
			m.Status.Node = &records.NodeRef{Name: "host-8", NotReady: "KubeletNotReady: container runtime network not ready"}
		}),
	}
	return cl, machines
}

var revisions = regexp.MustCompile(`"(resourceVersion|revision)":("?\d+"?)`)

// eventRevisions begin the IDs of events.
var eventRevisions = regexp.MustCompile(`"\d{20}/`)

func TestGolden(t *testing.T) {
	b := newBench(t)
	harbour(b)
	b.addOperation("op-bcdfghjk", func(o *operations.Operation) {
		*o = o.WithTask(operations.Task{ID: "custom-0f31c2aa9d10", Title: "Upgrade host-1", State: operations.TaskSucceeded, Host: "host-1", Attempts: 1}, start)
		*o = o.WithTask(operations.Task{ID: "custom-000000000001", Title: "Upgrade host-2", Host: "host-2"}, start)
		*o = o.WithWait(&operations.Wait{Object: "machine custom-000000000001", Host: "host-2", Cause: "its agent is not connected", NextStep: "start it"}, start)
	})
	b.addOperation("op-zzzzzzzz", func(o *operations.Operation) {
		o.State, o.Subject, o.By, o.Reason, o.Ended, o.Once = operations.Failed, "fleet-default/quay", "", "no space left", start.Add(time.Minute), true
	})
	for _, c := range []struct{ name, target string }{
		{"root", "/v3"},
		{"roots", "/"},
		{"cluster-active", "/v3/clusters/c-m-h4rb0r55"},
		{"cluster-pending", "/v3/clusters/c-m-qqqqqqqq"},
		{"node-active", "/v3/nodes/c-m-h4rb0r55:m-0f31c2aa9d10"},
		{"node-failed", "/v3/nodes/c-m-h4rb0r55:m-000000000006"},
		{"projects", "/v3/projects?clusterId=c-m-h4rb0r55"},
		{"registration-token", "/v3/clusterRegistrationTokens/c-m-h4rb0r55:default-token"},
		{"setting", "/v3/settings/server-url"},
		{"token", "/v3/tokens/token-admin"},
		{"user", "/v3/users/user-admin"},
		{"nodepools", "/v3/nodepools"},
		{"schema-setting", "/v3/schemas/setting"},
		{"error", "/v3/clusters/nowhere"},
		{"v1-root", "/v1"},
		{"v1-counts", "/v1/counts"},
		{"v1-schemas", "/v1/schemas"},
		{"v1-cluster", "/v1/provisioning.cattle.io.clusters/fleet-default/harbour"},
		{"v1-management-cluster", "/v1/management.cattle.io.clusters/c-m-h4rb0r55"},
		{"v1-machine", "/v1/cluster.x-k8s.io.machines/fleet-default/custom-0f31c2aa9d10"},
		{"public-root", "/v3-public"},
		{"public-providers", "/v3-public/authProviders"},
		{"plain-providers", "/v1-public/authproviders"},
		{"drover-clusters", "/v1-drover/clusters"},
		{"drover-document", "/v1-drover/clusters/fleet-default/harbour/document"},
		{"drover-join", "/v1-drover/clusters/fleet-default/harbour/join"},
		{"drover-machines", "/v1-drover/machines?cluster=c-m-h4rb0r55&limit=2"},
		{"drover-operations", "/v1-drover/operations"},
		{"drover-operation", "/v1-drover/operations/op-bcdfghjk"},
		{"drover-events", "/v1-drover/events?cluster=c-m-h4rb0r55&limit=7"},
		{"drover-tokens", "/v1-drover/tokens"},
		{"drover-tunnels", "/v1-drover/tunnels"},
		{"drover-versions", "/v1-drover/versions?runtime=k3s"},
		{"drover-version", "/v1-drover/versions/v1.34.4+k3s1"},
		{"release", "/v1-rke2-release/releases/v1.34.4+rke2r1"},
		{"machine-detail", "/v1-drover/machines/fleet-default/custom-000000000006"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.get(c.target)
			// Revisions depend on what the store wrote before.
			var replace []string
			for _, m := range revisions.FindAllStringSubmatch(string(r.raw), -1) {
				replace = append(replace, fmt.Sprintf("%q: %s,", m[1], m[2]), fmt.Sprintf("%q: %q,", m[1], "REVISION"))
			}
			for _, id := range eventRevisions.FindAllString(string(r.raw), -1) {
				replace = append(replace, id, `"REVISION/`)
			}
			r.golden(t, c.name, replace...)
		})
	}
}

// TestSchemas: what a client may try is just what the table has.
func TestSchemas(t *testing.T) {
	b := newBench(t)
	for target, want := range map[string][]string{
		"/v3/schemas": {
			"cluster [GET POST] [GET PUT DELETE]", "clusterRegistrationToken [GET POST] [GET DELETE]", "node [GET] [GET PUT DELETE]", "nodePool [GET] [GET]",
			"etcdBackup [GET POST] [GET DELETE]", "project [GET POST] [GET PUT DELETE]", "setting [GET] [GET PUT]", "token [GET POST] [GET PUT DELETE]", "user [GET POST] [GET PUT DELETE]",
			"globalRole [GET POST] [GET PUT DELETE]", "globalRoleBinding [GET POST] [GET DELETE]", "roleTemplate [GET POST] [GET PUT DELETE]",
			"clusterRoleTemplateBinding [GET POST] [GET PUT DELETE]", "projectRoleTemplateBinding [GET POST] [GET PUT DELETE]", "principal [GET] [GET]", "authConfig [GET] [GET PUT]", "rkeK8sSystemImage [GET] [GET]", "cloudCredential [GET POST] [GET PUT DELETE]",
			"preference [GET POST] [GET PUT DELETE]", "feature [GET] [GET]",
		},
		"/v3/cluster/schemas": {"namespace [GET POST] [GET PUT DELETE]", "persistentVolume [GET] [GET]", "storageClass [GET] [GET]"},
		"/v3/project/schemas": {
			"secret [GET POST] [GET PUT DELETE]", "workload [GET] [GET]",
			"namespacedSecret [GET POST] [GET]", "dockerCredential [GET POST] [GET]", "namespacedDockerCredential [GET POST] [GET]", "certificate [GET POST] [GET]", "namespacedCertificate [GET POST] [GET]",
		},
	} {
		var got []string
		for _, s := range b.get(target).data() {
			got = append(got, fmt.Sprint(s["id"], " ", s["collectionMethods"], " ", s["resourceMethods"]))
			links, _ := s["links"].(map[string]any)
			if links["collection"] == nil {
				t.Errorf("%s has no link collection", s["id"])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", target, got, want)
		}
	}
}

// TestNodeStates: each registration state in the words of clients.
func TestNodeStates(t *testing.T) {
	b := newBench(t)
	_, machines := harbour(b)
	var got []string
	for _, m := range machines {
		r := b.get("/v3/nodes/" + k8sobjects.NodeID(m))
		v1 := b.get("/v1/cluster.x-k8s.io.machines/" + m.Key())
		status, _ := v1.body["status"].(map[string]any)
		got = append(got, fmt.Sprintf("%s | %s %s %q | %s", r.text("droverState"), r.text("state"), r.text("transitioning"), r.text("transitioningMessage"), status["phase"]))
	}
	want := []string{
		`Active | active no "" | Running`,
		`Registering | registering yes "" | Pending`,
		`Waiting for plan | provisioning yes "machine custom-000000000002 waits for the first control plane" | Pending`,
		`Applying plan | provisioning yes "waiting for the agent on 192.0.2.13" | Provisioning`,
		`Waiting for probes | provisioning yes "probe kubelet fails" | Provisioning`,
		`Waiting to register with Kubernetes | provisioning yes "waiting to register with Kubernetes" | Provisioned`,
		`Error | error error "install of custom-000000000006 failed with exit code 7" | Failed`,
		`Removing | removing yes "" | Deleting`,
		`Active | unavailable yes "KubeletNotReady: container runtime network not ready" | Running`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNodeIDs: an id lasts, finds its machine, and follows the pattern also for names
// of another form.
func TestNodeIDs(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	for _, name := range []string{"custom-0f31c2aa9d10", "custom-zz31c2aa9d10", "adopted", "custom-0f31c2aa9d1"} {
		m := b.addMachine(cl, "x", func(m *records.Machine) { m.Name = name })
		id := k8sobjects.NodeID(m)
		short, ok := strings.CutPrefix(id, "c-m-h4rb0r55:m-")
		if !ok || len(short) != 12 || strings.Trim(short, "0123456789abcdef") != "" {
			t.Errorf("id of %s is %s", name, id)
		}
		if got := b.get("/v3/nodes/" + id).text("droverMachine"); got != m.Key() {
			t.Errorf("%s finds %q, want %s", id, got, m.Key())
		}
	}
}

func TestProjectIDs(t *testing.T) {
	seen := map[string]bool{}
	for i := range 500 {
		both := records.NewClusterProjects(fmt.Sprintf("c-m-%08d", i), start)
		for _, id := range []string{both.Default, both.System} {
			cluster, short, _ := strings.Cut(id, ":p-")
			if seen[id] || len(cluster) != 12 || len(short) != 5 || strings.Trim(short, "bcdfghjklmnpqrstvwxz2456789") != "" {
				t.Errorf("id %q", id)
			}
			seen[id] = true
		}
		if again := records.NewClusterProjects(fmt.Sprintf("c-m-%08d", i), start); again.Default == both.Default || again.System == both.System || both.Default >= both.System {
			t.Errorf("IDs %v, and of another cluster of that ID %v", both, again)
		}
	}
}

package api_test

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

var _ = flag.Bool("update", false, "write the golden files anew")

// eventRevisions begin the IDs of events.
var eventRevisions = regexp.MustCompile(`"\d{20}/`)

func TestGolden(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AddOperation("op-bcdfghjk", func(o *operations.Operation) {
		*o = o.WithTask(operations.Task{ID: "custom-0f31c2aa9d10", Title: "Upgrade host-1", State: operations.TaskSucceeded, Host: "host-1", Attempts: 1}, apibed.Start)
		*o = o.WithTask(operations.Task{ID: "custom-000000000001", Title: "Upgrade host-2", Host: "host-2"}, apibed.Start)
		*o = o.WithWait(&operations.Wait{Object: "machine custom-000000000001", Host: "host-2", Cause: "its agent is not connected", NextStep: "start it"}, apibed.Start)
	})
	b.AddOperation("op-zzzzzzzz", func(o *operations.Operation) {
		o.State, o.Subject, o.By, o.Reason, o.Ended, o.Once = operations.Failed, "fleet-default/quay", "", "no space left", apibed.Start.Add(time.Minute), true
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
			r := b.Get(c.target)
			// Revisions depend on what the store wrote before.
			var replace []string
			for _, m := range apibed.Revisions.FindAllStringSubmatch(string(r.Raw), -1) {
				replace = append(replace, fmt.Sprintf("%q: %s,", m[1], m[2]), fmt.Sprintf("%q: %q,", m[1], "REVISION"))
			}
			for _, id := range eventRevisions.FindAllString(string(r.Raw), -1) {
				replace = append(replace, id, `"REVISION/`)
			}
			r.Golden(t, c.name, replace...)
		})
	}
}

// TestSchemas: what a client may try is just what the table has.
func TestSchemas(t *testing.T) {
	b := apibed.New(t)
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
		for _, s := range b.Get(target).Data() {
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
	b := apibed.New(t)
	_, machines := apibed.Harbour(b)
	var got []string
	for _, m := range machines {
		r := b.Get("/v3/nodes/" + k8sobjects.NodeID(m))
		v1 := b.Get("/v1/cluster.x-k8s.io.machines/" + m.Key())
		status, _ := v1.Body["status"].(map[string]any)
		got = append(got, fmt.Sprintf("%s | %s %s %q | %s", r.Text("droverState"), r.Text("state"), r.Text("transitioning"), r.Text("transitioningMessage"), status["phase"]))
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
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	for _, name := range []string{"custom-0f31c2aa9d10", "custom-zz31c2aa9d10", "adopted", "custom-0f31c2aa9d1"} {
		m := b.AddMachine(cl, "x", func(m *records.Machine) { m.Name = name })
		id := k8sobjects.NodeID(m)
		short, ok := strings.CutPrefix(id, "c-m-h4rb0r55:m-")
		if !ok || len(short) != 12 || strings.Trim(short, "0123456789abcdef") != "" {
			t.Errorf("id of %s is %s", name, id)
		}
		if got := b.Get("/v3/nodes/" + id).Text("droverMachine"); got != m.Key() {
			t.Errorf("%s finds %q, want %s", id, got, m.Key())
		}
	}
}

func TestProjectIDs(t *testing.T) {
	seen := map[string]bool{}
	for i := range 500 {
		both := records.NewClusterProjects(fmt.Sprintf("c-m-%08d", i), apibed.Start)
		for _, id := range []string{both.Default, both.System} {
			cluster, short, _ := strings.Cut(id, ":p-")
			if seen[id] || len(cluster) != 12 || len(short) != 5 || strings.Trim(short, "bcdfghjklmnpqrstvwxz2456789") != "" {
				t.Errorf("id %q", id)
			}
			seen[id] = true
		}
		if again := records.NewClusterProjects(fmt.Sprintf("c-m-%08d", i), apibed.Start); again.Default == both.Default || again.System == both.System || both.Default >= both.System {
			t.Errorf("IDs %v, and of another cluster of that ID %v", both, again)
		}
	}
}

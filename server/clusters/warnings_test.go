package clusters_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// join adds a machine of cluster harbour.
func (b *bed) join(n int, shape func(*records.Machine)) {
	b.Helper()
	m := records.Machine{
		Object:      records.Object{Namespace: "fleet-default", Name: fmt.Sprintf("custom-%012x", n), UID: fmt.Sprintf("uid-%d", n)},
		ClusterName: "harbour", OS: "linux",
	}
	shape(&m)
	if _, err := b.state.Machines.Create(b.Context(), m.Key(), m); err != nil {
		b.Fatal(err)
	}
}

func etcd(m *records.Machine) { m.Roles.Etcd = true }

func worker(m *records.Machine) {
	m.Roles.Worker, m.Labels = true, map[string]string{"rke.cattle.io/worker-role": "true"}
}

func going(m *records.Machine) {
	etcd(m)
	m.Deleting = m.Created.AddDate(1, 0, 0)
}

func TestWarningsThatNeedMachines(t *testing.T) {
	const even = "the cluster has %d machines with the etcd role, which survive no more failures than %d would; add one, or remove one"
	selecting := func(field string) string {
		return strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {"+field+"}", 1)
	}
	config := selecting(`machineSelectorConfig: [{config: {debug: true}}, {machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: "true"}}, config: {debug: true}}]`)
	files := selecting(`machineSelectorFiles: [{machineLabelSelector: {matchLabels: {rack: "7"}}, fileSources: [{secret: {name: a, items: [{key: k, path: /k}]}}]}]`)
	for _, tc := range []struct {
		name, text string
		machines   []func(*records.Machine)
		want       []string
	}{
		{"no machine yet", config, nil, nil},
		{"one", harbour, []func(*records.Machine){etcd}, nil},
		{"two", harbour, []func(*records.Machine){etcd, etcd, worker}, []string{fmt.Sprintf(even, 2, 1)}},
		{"three, of which one goes", harbour, []func(*records.Machine){etcd, etcd, going}, []string{fmt.Sprintf(even, 2, 1)}},
		{"four", harbour, []func(*records.Machine){etcd, etcd, etcd, etcd}, []string{fmt.Sprintf(even, 4, 3)}},
		{"workers alone", harbour, []func(*records.Machine){worker, worker}, nil},
		{"selected", config, []func(*records.Machine){etcd, worker}, nil},
		{"nobody selected", config, []func(*records.Machine){etcd}, []string{"spec.rkeConfig.machineSelectorConfig[1].machineLabelSelector: matches none of the cluster's 1 machines"}},
		{"nobody selected for files", files, []func(*records.Machine){etcd, worker}, []string{"spec.rkeConfig.machineSelectorFiles[0].machineLabelSelector: matches none of the cluster's 2 machines",
			"there is no secret fleet-default/a that you or cluster harbour may use; its machines get no plan before there is: apply it and then the cluster again, or have its owner name the cluster's ID in its annotation rke.cattle.io/object-authorized-for-clusters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			b.apply(harbour)
			for i, shape := range tc.machines {
				b.join(i, shape)
			}
			for range 2 { // also when nothing changes any more
				if diff := cmp.Diff(tc.want, b.apply(tc.text)[0].Warnings); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestRegistryOfTheServer: RKE2 does not start with a registry that has a path, which k3s and RKE1 take.
func TestRegistryOfTheServer(t *testing.T) {
	rke2 := strings.Replace(harbour, "+k3s1", "+rke2r1", 1)
	for _, tc := range []struct {
		text, registry string
		warned         bool
	}{
		{rke2, "images.lan/hub", true}, {rke2, "images.lan:5000", false}, {rke2, "", false}, {harbour, "images.lan/hub", false},
		{strings.Replace(rke2, "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {system-default-registry: own.lan}}", 1), "images.lan/hub", false},
	} {
		b := newBed(t)
		b.applier.DefaultRegistry = func() string { return tc.registry }
		warnings := b.apply(tc.text)[0].Warnings
		if warned := len(warnings) == 1 && strings.HasPrefix(warnings[0], "spec.rkeConfig.machineGlobalConfig.system-default-registry: is empty, so that the setting system-default-registry of the server counts, and RKE2 does not start with \"images.lan/hub\""); warned != tc.warned || !warned && len(warnings) > 0 {
			t.Errorf("%q: %q", tc.registry, warnings)
		}
	}
}

// TestAChangeIsHeldToWhatRuns: the versions of the nodes, whether a control plane has been up, and the annotations of the
// cluster as it is stored and as it is applied.
func TestAChangeIsHeldToWhatRuns(t *testing.T) {
	b := newBed(t)
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	try := func(text string) error {
		docs, err := clusterspec.Parse([]byte(text), known)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.applier.Apply(t.Context(), docs, clusters.Request{Who: auth.Identity{UserID: "user-x", Admin: true}, DryRun: true})
		return err
	}
	at := func(version string) string { return strings.Replace(harbour, "v1.34.4+k3s1", version, 1) }
	network := strings.Replace(at("v1.32.5+k3s1"), "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {cluster-cidr: 10.9.0.0/16}}", 1)
	b.apply(at("v1.32.5+k3s1"))
	for _, text := range []string{at("v1.34.4+k3s1"), network} {
		if err := try(text); err != nil {
			t.Errorf("before anything ran: %v", err)
		}
	}
	b.join(1, func(m *records.Machine) {
		m.Status.Node = &records.NodeRef{Name: "pier", KubeletVersion: "v1.32.5+k3s1"}
	})
	if _, err := b.state.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
		c.Status.Initialized = true
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := try(network); err == nil || !strings.Contains(err.Error(), "machineGlobalConfig.cluster-cidr: is what the cluster was made with") {
		t.Errorf("another network: %v", err)
	}
	if err := try(at("v1.34.4+k3s1")); err == nil || !strings.Contains(err.Error(), "leaves out a minor line") {
		t.Errorf("two lines at once: %v", err)
	}
	allowed := strings.Replace(at("v1.34.4+k3s1"), "name: harbour", `name: harbour, annotations: {drover.dev/allow-skipped-minor: "true"}`, 1)
	if err := try(allowed); err != nil {
		t.Errorf("allowed by the document: %v", err)
	}
	b.apply(strings.Replace(allowed, "v1.34.4", "v1.32.5", 1))
	if err := try(at("v1.34.4+k3s1")); err != nil {
		t.Errorf("allowed by what is stored: %v", err)
	}
}

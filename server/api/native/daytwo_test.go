package native_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// operationsOf are those of a cluster, as kinds and states.
func operationsOf(b *apibed.Bed, key records.ClusterKey) (all []string) {
	for _, o := range b.State.OperationsOf(key) {
		all = append(all, string(o.Kind)+" "+string(o.State))
	}
	slices.Sort(all)
	return all
}

// TestWhatIsAskedOfClustersOnHosts becomes an operation with exactly what was asked for.
func TestWhatIsAskedOfClustersOnHosts(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AddSnapshot("/d/one")
	for _, c := range []struct {
		name, query, body string
		kind              operations.Kind
		title             string
		want              steps.Request
	}{
		{"a snapshot", "", `{"kind": "snapshot"}`, operations.KindSnapshot, "take a snapshot of the etcd of cluster harbour", steps.Request{}},
		{"a snapshot with a name, of one machine", "", `{"kind": "snapshot", "snapshot": "before", "machines": ["custom-0f31c2aa9d10"]}`, operations.KindSnapshot, "take a snapshot",
			steps.Request{Name: "before", Machines: []string{"custom-0f31c2aa9d10"}}},
		{"a restore", "", `{"kind": "restore", "snapshot": "one"}`, operations.KindRestore, "one", steps.Request{Snapshot: "/d/one", Target: "custom-0f31c2aa9d10"}},
		{"a restore without a snapshot before", "?noSnapshot=true", `{"kind": "restore", "snapshot": "one", "mode": "none"}`, operations.KindRestore, "one",
			steps.Request{Snapshot: "/d/one", Target: "custom-0f31c2aa9d10", NoSnapshot: true}},
		{"a restore of the version, too", "", `{"kind": "restore", "snapshot": "one", "mode": "kubernetesVersion"}`, operations.KindRestore, "one",
			steps.Request{Snapshot: "/d/one", Target: "custom-0f31c2aa9d10", Spec: &clusterspec.Spec{KubernetesVersion: "v1.34.3+k3s1", RKEConfig: &clusterspec.RKEConfig{}}}},
		{"a restore of a file", "", `{"kind": "restore", "snapshot": "/root/two", "machines": ["custom-000000000003"]}`, operations.KindRestore, "two",
			steps.Request{Snapshot: "/root/two", Target: "custom-000000000003"}},
		{"certificates", "", `{"kind": "rotate-certificates"}`, operations.KindRotateCertificates, "", steps.Request{}},
		{"certificates of two services", "", `{"kind": "rotate-certificates", "services": ["etcd", "kubelet"]}`, operations.KindRotateCertificates, "", steps.Request{Services: []string{"etcd", "kubelet"}}},
		{"new CAs", "", `{"kind": "rotate-ca"}`, operations.KindRotateCA, "give cluster harbour new CAs", steps.Request{}},
		{"new CAs, as of RKE1", "?noSnapshot=true", `{"kind": "rotate-certificates", "ca": true}`, operations.KindRotateCA, "give cluster harbour new CAs", steps.Request{NoSnapshot: true}},
		{"a key", "", `{"kind": "rotate-encryption-keys"}`, operations.KindRotateKeys, "", steps.Request{}},
	} {
		r := b.Request("POST", apibed.HarbourOperations+c.query, b.Admin, c.body)
		var begun struct {
			Operation struct{ ID, Kind, Title, State string }
		}
		if err := json.Unmarshal(r.Raw, &begun); err != nil || r.Status != http.StatusOK {
			t.Errorf("%s: %d %v: %s", c.name, r.Status, err, r.Raw)
			continue
		}
		d, ok := b.State.OperationsByID.First(begun.Operation.ID)
		request, err := steps.ReadRequest(d.Value)
		if !ok || err != nil || d.Value.Kind != c.kind || d.Value.By != "user-admin" || d.Value.State != operations.Running || !strings.Contains(d.Value.Title, c.title) {
			t.Errorf("%s: %v, %+v", c.name, err, d.Value)
		}
		if diff := cmp.Diff(c.want, request); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if err := b.State.Operations.Delete(t.Context(), d.Key, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsRefusedOfClustersOnHosts is refused with a sentence that names what is wrong, and nothing begins.
func TestWhatIsRefusedOfClustersOnHosts(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AddSnapshot("/d/one")
	for _, c := range []struct{ query, body, field, says string }{
		{"", `{}`, "kind", `"" cannot be asked for; there are restore, rotate-ca, rotate-certificates, rotate-encryption-keys, rotate-server-token, snapshot`},
		{"", `null`, "kind", "cannot be asked for"},
		{"", `{"kind": "upgrade"}`, "kind", `"upgrade" cannot be asked for`},
		{"", `{"kind": "` + strings.Repeat("x", 10_000) + `"}`, "kind", "cannot be asked for"},
		{"", `{"kind": "snapshot", "ca": true}`, "kind", "for clusters of RKE1, and harbour is not one"},
		{"", `{"kind": "restore", "snapshot": "one", "keepState": true}`, "kind", "for clusters of RKE1"},
		{"", `{"kind": "rotate-ca", "ca": true}`, "kind", "for clusters of RKE1, and harbour is not one"},
		{"", `{"kind": "rotate-certificates", "ca": true, "services": ["etcd"]}`, "services", "with new CAs all of them"},
		{"", `{"kind": "rotate-ca", "machines": ["custom-0f31c2aa9d10"]}`, "machines", "rotate-ca is done on all machines"},
		{"?dryRun=perhaps", `{"kind": "snapshot"}`, "dryRun", `"perhaps" is neither true nor false`},
		{"?noSnapshot=true", `{"kind": "snapshot"}`, "noSnapshot", "only upgrades, restores and rotations of the CAs begin with a snapshot"},
		{"?noSnapshot=true", `{"kind": "rotate-certificates"}`, "noSnapshot", "only upgrades, restores"},
		{"?now=true", `{"kind": "rotate-certificates"}`, "now", "does not wait for a maintenance window"},
		{"?replace=true", `{"kind": "rotate-encryption-keys"}`, "replace", "only a restore takes the place"},
		{"?queue=true&replace=true", `{"kind": "restore", "snapshot": "one"}`, "queue", "cannot stand beside replace"},
		{"?maxMachines=99999999999999999999", `{"kind": "snapshot"}`, "maxMachines", "is not a number of machines"},
		{"?maxMachines=-1", `{"kind": "snapshot"}`, "maxMachines", "is not a number of machines"},
		{"", `{"kind": "restore", "snapshot": "one", "machines": ["a", "b"]}`, "machines", "a snapshot is restored on one machine"},
		{"", `{"kind": "rotate-certificates", "machines": ["custom-0f31c2aa9d10"]}`, "machines", "rotate-certificates is done on all machines"},
		{"", `{"kind": "rotate-encryption-keys", "machines": ["custom-0f31c2aa9d10"]}`, "machines", "is done on all machines"},
		{"", `{"kind": "rotate-certificates", "snapshot": "one"}`, "snapshot", "only snapshot and restore"},
		{"", `{"kind": "snapshot", "mode": "all"}`, "mode", "only restores have a mode"},
		{"", `{"kind": "snapshot", "services": ["etcd"]}`, "services", "only certificates are rotated by service"},
		{"", `{"kind": "restore"}`, "", `has no snapshot ""`},
		{"", `{"kind": "restore", "snapshot": "two"}`, "", `has no snapshot "two"; drover snapshots ls harbour`},
		{"", `{"kind": "restore", "snapshot": "../../d/one", "machines": ["custom-0f31c2aa9d10"]}`, "", "has no snapshot"},
		{"", `{"kind": "restore", "snapshot": "/d/../etc/shadow", "machines": ["custom-0f31c2aa9d10"]}`, "", "neither the path of a snapshot nor the name of one"},
		{"", `{"kind": "restore", "snapshot": "/d/$(reboot)", "machines": ["custom-0f31c2aa9d10"]}`, "", "neither the path of a snapshot"},
		{"", `{"kind": "restore", "snapshot": "one", "mode": "some"}`, "", `"some" is not a mode of restores`},
		{"", `{"kind": "snapshot", "snapshot": "Not A Name"}`, "", "cannot begin the name of a snapshot"},
		{"", `{"kind": "rotate-certificates", "services": ["cron"]}`, "", `"cron" is not a service with certificates`},
	} {
		revision := b.State.Store.Revision()
		r := b.Request("POST", apibed.HarbourOperations+c.query, b.Admin, c.body)
		if r.Status != http.StatusUnprocessableEntity || !strings.Contains(r.Text("message"), c.says) || r.Text("fieldName") != c.field || len(r.Raw) > 2_000 {
			t.Errorf("%s %.100s: %d %.500s", c.query, c.body, r.Status, r.Raw)
		}
		if b.State.Store.Revision() != revision {
			t.Errorf("%s %.100s: something was written", c.query, c.body)
		}
	}
	if r := b.Request("POST", "/v1-drover/clusters/fleet-default/quay/operations", b.Admin, `{"kind": "snapshot"}`); r.Status != http.StatusUnprocessableEntity || !strings.Contains(r.Text("message"), "has not been up yet") {
		t.Errorf("a cluster that has not been up: %d %s", r.Status, r.Raw)
	}
	for token, status := range map[string]int{"": http.StatusUnauthorized, "token-admin:wrong": http.StatusUnauthorized, b.User: http.StatusNotFound} {
		if r := b.Request("POST", apibed.HarbourOperations, token, `{"kind": "snapshot"}`); r.Status != status {
			t.Errorf("somebody who may not: %d, want %d", r.Status, status)
		}
	}
	if got := operationsOf(b, "fleet-default/harbour"); len(got) != 0 {
		t.Errorf("there are %q", got)
	}
}

// TestOneOperationAtATime: the second one is refused, or waits, and a restore takes the place of a change.
func TestOneOperationAtATime(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AddSnapshot("/d/one")
	b.Want(http.StatusOK, "POST", apibed.HarbourOperations, `{"kind": "snapshot"}`)
	b.Pass(1)
	if r := b.Want(http.StatusConflict, "POST", apibed.HarbourOperations, `{"kind": "rotate-certificates"}`); !strings.Contains(r.Text("message"), "drover operations wait") {
		t.Errorf("%s", r.Raw)
	}
	b.Want(http.StatusOK, "POST", apibed.HarbourOperations+"?queue=true", `{"kind": "rotate-certificates"}`)
	if diff := cmp.Diff([]string{"rotate-certificates queued", "snapshot running"}, operationsOf(b, "fleet-default/harbour")); diff != "" {
		t.Error(diff)
	}
}

// TestSnapshotsOverV1: dashboards list the snapshots of clusters that the caller may read them of, also those in S3 but for the ones that may
// be another cluster's, by names that stay.
func TestSnapshotsOverV1(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	annID, ann := b.Person("ann", "user")
	b.AddSnapshot("/var/lib/rancher/k3s/server/db/snapshots/on-demand-Pier_1-1767225600")
	for _, s := range []records.Snapshot{
		{Cluster: "fleet-default/harbour", Machine: records.SnapshotInS3, File: "s3://quay/on-demand-pier-1-1767225700", Created: apibed.Start},
		{Cluster: "fleet-default/harbour", Machine: "custom-0f31c2aa9d10", File: "failed", Fault: "no space left", Created: apibed.Start},
		{Cluster: "fleet-default/gone", Machine: "custom-0f31c2aa9d10", File: "/a", Created: apibed.Start},
	} {
		if _, err := b.State.Snapshots.Create(t.Context(), s.Key(), s); err != nil {
			t.Fatal(err)
		}
	}
	type list struct {
		Data []struct {
			ID           string
			Metadata     struct{ Name, Namespace string }
			Spec         struct{ ClusterName string }
			SnapshotFile struct {
				Name, Location, Status, Message string
				Size                            int
			}
		}
	}
	const at = "/v1/rke.cattle.io.etcdsnapshots"
	var all list
	decode := func(r apibed.Result, into any) {
		t.Helper()
		if err := json.Unmarshal(r.Raw, into); err != nil || r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Raw)
		}
	}
	decode(b.Request("GET", at, b.Admin, ""), &all)
	var got []string
	for _, s := range all.Data {
		got = append(got, strings.Join([]string{s.Metadata.Namespace, s.Spec.ClusterName, s.SnapshotFile.Location, s.SnapshotFile.Status, s.SnapshotFile.Message}, " "))
	}
	want := []string{
		"fleet-default harbour failed failed no space left",
		"fleet-default harbour file:///var/lib/rancher/k3s/server/db/snapshots/on-demand-Pier_1-1767225600 successful ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	one := all.Data[1]
	if !regexp.MustCompile(`^harbour-local-on-demand-pier-1-1767225600-[0-9a-f]{6}$`).MatchString(one.Metadata.Name) || one.ID != "fleet-default/"+one.Metadata.Name {
		t.Errorf("it is named %q, with the id %q", one.Metadata.Name, one.ID)
	}
	if r := b.Request("GET", at+"/"+one.ID, b.Admin, ""); r.Status != http.StatusOK || !strings.Contains(string(r.Raw), "on-demand-Pier_1-1767225600") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	// Of a cluster of their own people see it.
	for _, path := range []string{at, at + "/" + one.ID} {
		if r := b.Request("GET", path, ann, ""); r.Status != http.StatusNotFound {
			t.Errorf("a stranger gets %d %s", r.Status, r.Raw)
		}
	}
	b.Bind("clusterroletemplatebindings", `{"roleTemplateId":"cluster-owner","clusterId":"c-m-h4rb0r55","userId":"`+annID+`"}`)
	var own list
	if decode(b.Request("GET", at, ann, ""), &own); len(own.Data) != len(all.Data) {
		t.Errorf("an owner sees %+v", own)
	}
}
